//! What our connections leave behind in a pooler, for its other clients (fault 23).

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures_util::future::{join, join_all, try_join_all};
use sendoff_engine::store::{ClaimStore, InspectStore, PauseStore};
use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore};
use sendoff_testkit::wait::eventually;
use tokio::time::{interval, timeout};
use tokio_postgres::{Client, SimpleQueryMessage};
use tokio_util::sync::CancellationToken;

use crate::place::{Place, by, claim, connect, due, event, write};

/// As long as a healthy server may take for an answer on a busy machine.
const PLENTY: Duration = Duration::from_secs(20);

fn options(place: &Place) -> PostgresOptions {
    PostgresOptions { doorbell: Doorbell::Off, ..place.options() }
}

/// Nobody can use the table until this transaction ends. By a way of its own: the pooler has few sessions.
async fn lock_table(direct: &Place, store: &PostgresStore) -> Client {
    let client = direct.client().await;
    let lock = format!("begin; lock table {} in access exclusive mode", store.table());
    client.batch_execute(&lock).await.unwrap();
    client
}

/// How many statements about a place wait for a lock.
async fn waiting(direct: &Place, place: &Place) -> i64 {
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    direct.number(&format!("{waiting} and query like '%{}%'", place.schema)).await
}

/// Asks for a text, and whether that is what comes back.
async fn is_answered(client: &Client, text: &str) -> Result<bool, tokio_postgres::Error> {
    let messages = client.simple_query(&format!("select '{text}'")).await?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(rows.collect::<Vec<_>>() == [text])
}

/// Another program, which connects anew for every few questions; says how many were answered.
async fn ask(url: &str, name: &str, stop: &CancellationToken) -> usize {
    let (mut asked, mut pace) = (0, interval(Duration::from_millis(2)));
    while !stop.is_cancelled() {
        pace.tick().await;
        let client = connect(url).await.expect("the pooler takes others in");
        for _ in 0..5 {
            let text = format!("{name}{asked}");
            let answer = timeout(PLENTY, is_answered(&client, &text)).await;
            let answer = answer.expect("others are answered").expect("their sessions go on");
            assert!(answer, "{text} got the answer of somebody else");
            asked += 1;
        }
    }
    asked
}

/// PgBouncer 1.18 takes the next client for a request to cancel whose connection was closed too early: it
/// ends that client, or mixes up who is to get which answer, or crashes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_given_up_behind_a_pooler_harm_nobody_else() {
    let (place, direct) = (Place::pooled(), Place::new());
    let store = place.store_with(options(&place)).await;
    let lock = lock_table(&direct, &store).await;
    let stop = CancellationToken::new();
    let others = ["a", "b"].map(|name| {
        let (url, stop) = (place.url.clone(), stop.clone());
        tokio::spawn(async move { ask(&url, name, &stop).await })
    });
    for _ in 0..10 {
        let given_up = timeout(Duration::from_millis(400), store.claim(&by("a"))).await;
        assert!(given_up.is_err(), "the table is locked: {given_up:?}");
    }
    // The server was asked to end them, and was told so by the pooler.
    eventually("their end", async || waiting(&direct, &place).await <= 1).await;
    stop.cancel();
    for asked in try_join_all(others).await.expect("nobody else noticed") {
        assert!(asked > 0);
    }
    lock.batch_execute("rollback").await.unwrap();
    write(&store, &mut place.client().await, &[due(event())]).await;
    eventually("a claim", async || !claim(&store, "a").await.is_empty()).await;
}

/// A pooler may hand a server on as soon as one of a client's statements was answered and the client is gone,
/// with others still under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_gone_leaves_no_answers_to_others() {
    let (place, direct) = (Place::pooled(), Place::new());
    let store = place.store_with(options(&place)).await;
    let lock = lock_table(&direct, &store).await;

    let (gone, is_gone) = mpsc::channel::<()>();
    let (answered, is_answered_once) = tokio::sync::oneshot::channel();
    let (url, options) = (place.url.clone(), options(&place));
    let process = thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.spawn(async move {
            let store = PostgresStore::connect_lazy(url, options).unwrap();
            // Over one connection; the second waits for the table.
            let quick = async {
                store.pauses().await.unwrap();
                answered.send(()).unwrap();
            };
            join(quick, store.counts()).await
        });
        is_gone.recv().unwrap();
        // Its sockets are closed as they are.
        runtime.shutdown_background();
    });
    is_answered_once.await.unwrap();
    eventually("the other statement to wait", async || waiting(&direct, &place).await == 1).await;
    gone.send(()).unwrap();
    process.join().unwrap();

    let others = ["a", "b", "c"].map(async |name| {
        let client = connect(&place.url).await.unwrap();
        is_answered(&client, name).await
    });
    let answers = timeout(PLENTY, join_all(others)).await.expect("nobody waits for that table");
    for answer in answers {
        assert!(answer.expect("their sessions go on"), "an answer of somebody else");
    }
    lock.batch_execute("rollback").await.unwrap();
}
