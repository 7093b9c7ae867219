//! Real processes: stopped, continued, and taken down by their own handlers.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Status};
use sendoff_engine::Outbox;
use sendoff_engine::relay::{ClaimMode, Consumer, Relay, RelayOptions};
use sendoff_engine::store::{InspectStore, Row};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::ordeal::stopped::{self, options, wait_for_line};
use sendoff_testkit::process::{Node, say};
use sendoff_testkit::wait::within;

use crate::place::{Place, due, write};

const EVENT: &str = "order.placed";
const PLENTY: Duration = Duration::from_secs(60);

/// Not a test of its own: this program again, as a node in another process. Its handler says `began`
/// for each event, waits for a line on standard input where it was told to, and aborts the process
/// for a killer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(schema) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::in_schema(env::var("SENDOFF_POSTGRES_URL").unwrap(), schema);
    let waits = env::var("SENDOFF_TEST_WAITS").is_ok();
    if env::var("SENDOFF_TEST_LOCKED").is_ok() {
        return locked_relay(place).await;
    }
    let handler = move |delivery: Delivery| async move {
        say(&format!("began {}", delivery.id()));
        if delivery.read_json::<String>().is_ok_and(|text| text == "killer") {
            std::process::abort();
        }
        if waits {
            wait_for_line().await?;
        }
        Ok(())
    };
    stopped::play(place.store().await, handler).await;
    // The schema is the parent's.
    std::mem::forget(place);
}

/// The node as a batch relay that keeps its rows locked: it handles one event, and hangs in the next.
async fn locked_relay(place: Place) {
    let options = RelayOptions { mode: ClaimMode::Locked, workers: 1, ..RelayOptions::default() };
    let runs = Arc::new(AtomicUsize::new(0));
    let handler = move |delivery: Delivery| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move {
            say(&format!("began {}", delivery.id()));
            if run > 0 {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    };
    let relay = Relay::builder(place.store().await).options(options).build(handler).unwrap();
    // The schema is the parent's.
    std::mem::forget(place);
    relay.run(std::future::pending()).await;
}

/// A node that runs the given test of this program, told these things by its environment.
pub(crate) fn node_of(test: &str, place: &Place, told: &[&str]) -> Node {
    let place = [("SENDOFF_TEST_NODE", &*place.schema), ("SENDOFF_POSTGRES_URL", &*place.url)];
    let told = told.iter().map(|name| (*name, "1"));
    Node::start(test, &place.into_iter().chain(told).collect::<Vec<_>>())
}

async fn row(store: &PostgresStore, id: EventId) -> Row {
    store.find(id).await.unwrap().unwrap()
}

/// Fault 11: stopped past its hold and continued, it finds the row settled by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_cannot_settle_what_it_lost() {
    let place = Place::new();
    let (store, mut client) = (place.store().await, place.client().await);
    let event = Event::json(EVENT, "slow").unwrap();
    write(&store, &mut client, &[due(event.clone())]).await;

    let mut zombie = node_of("process::node", &place, &["SENDOFF_TEST_WAITS"]);
    let other = place.store().await;
    stopped::a_stopped_process_cannot_settle_what_it_lost(&store, other, &event, &mut zombie).await;
}

/// Fault 12: it ends dead after its attempts, and no neighbour does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_aborts_its_process_ends_dead_alone() {
    let place = Place::new();
    let (store, mut client) = (place.store().await, place.client().await);
    let killer = Event::json(EVENT, "killer").unwrap();
    let neighbours: Vec<_> = (0..20).map(|n| Event::json(EVENT, &n).unwrap()).collect();
    let mut rows = vec![due(killer.clone())];
    rows.extend(neighbours.iter().cloned().map(due));
    write(&store, &mut client, &rows).await;

    let mut lives = 0;
    while row(&store, killer.id()).await.status != Status::Dead {
        lives += 1;
        assert!(lives <= 6, "a crash loop");
        let mut node = node_of("process::node", &place, &[]);
        let over = async || {
            let dead = row(&store, killer.id()).await.status == Status::Dead;
            dead || node.child.try_wait().unwrap().is_some()
        };
        within(PLENTY, "a crash, or the end of it", over).await;
    }
    let relay = Outbox::builder(place.store().await).options(options()).on(EVENT, Inbox::new());
    let relay = relay.start().await.unwrap();
    let terminal = async || store.counts().await.unwrap().pending() == 0;
    within(PLENTY, "the neighbours", terminal).await;
    relay.close().await;
    let end = row(&store, killer.id()).await;
    assert_eq!((end.status, end.attempts), (Status::Dead, 3), "it shows all its attempts");
    for neighbour in &neighbours {
        assert_eq!(row(&store, neighbour.id()).await.status, Status::Done);
    }
}

/// Holds L4: a process killed with -9 in the middle of a locked batch leaves attempts and due times
/// exactly as they were, of what it had handled as well, and frees the rows at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_leaves_a_locked_batch_exactly_as_it_was() {
    let place = Place::new();
    let (store, mut client) = (place.store().await, place.client().await);
    let events: Vec<_> = (0..5).map(|n| Event::json(EVENT, &n).unwrap()).collect();
    let rows: Vec<_> = events.iter().cloned().map(due).collect();
    write(&store, &mut client, &rows).await;
    place
        .run(
            "update outbox_event set status = 2, attempts = 3, last_error = 'before',
                     due_at = due_at - interval '1.234567 s' where seq % 2 = 0",
        )
        .await;
    let state = async || {
        let mut state = Vec::new();
        for event in &events {
            let row = row(&store, event.id()).await;
            let error = row.last_error;
            state.push((row.status, row.attempts, row.losses, row.due_at, row.locked_by, error));
        }
        state
    };
    let before = state().await;

    let node = node_of("process::node", &place, &["SENDOFF_TEST_LOCKED"]);
    node.says("began");
    node.says("began");
    let options = RelayOptions { mode: ClaimMode::Locked, ..RelayOptions::default() };
    let consumer = Consumer::new(place.store().await, options).unwrap();
    assert!(consumer.fetch().await.unwrap().is_none(), "the rows are the other's");
    node.signal("-KILL");
    let mut batch = None;
    within(PLENTY, "the rows", async || {
        batch = consumer.fetch().await.unwrap();
        batch.is_some()
    })
    .await;
    let batch = batch.unwrap();
    assert_eq!(batch.records().len(), 5);
    let mut attempts: Vec<_> = batch.records().map(|record| record.attempt).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 1, 1, 4, 4], "a killed run was none");
    batch.rollback().await.unwrap();
    assert_eq!(state().await, before);
}
