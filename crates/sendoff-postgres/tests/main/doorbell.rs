//! Waking a relay that sleeps.

use std::time::Duration;

use futures_util::future::poll_fn;
use sendoff_core::Event;
use sendoff_engine::capture::Capture;
use sendoff_engine::store::{Birth, NewRow, WakeStore};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::eventually;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::journal::Gid;
use crate::place::{Place, due, event, write};

const AN_HOUR: Duration = Duration::from_secs(60 * 60);

async fn relay(
    store: PostgresStore,
    inbox: &Inbox,
    poll_interval: Duration,
) -> Outbox<PostgresStore> {
    let options = OutboxOptions { poll_interval, ..OutboxOptions::default() };
    Outbox::builder(store).options(options).on("order.placed", inbox.clone()).start().await.unwrap()
}

async fn asleep(place: &Place) -> bool {
    place.number("select last_value from outbox_bell").await == 2
}

/// Sessions that listen to this place's bell.
async fn handlers(place: &Place) -> i64 {
    place
        .number(&format!(
            "select count(*) from pg_stat_activity
              where query = 'listen \"{}.outbox\"' and state = 'idle'",
            place.schema
        ))
        .await
}

async fn sleeps(place: &Place) {
    let ready = async || asleep(place).await && handlers(place).await == 1;
    eventually("the relay to sleep", ready).await;
}

/// Three times: once the relay sleeps, something happens, and then an event is written, which comes.
async fn wakes_after(happens: impl AsyncFn(&Place)) {
    let place = Place::new();
    let (store, inbox) = (place.store().await, Inbox::new());
    let relay = relay(store, &inbox, AN_HOUR).await;
    let writer = place.store().await;
    let mut client = place.client().await;
    for round in 1..=3 {
        sleeps(&place).await;
        happens(&place).await;
        write(&writer, &mut client, &[due(event())]).await;
        inbox.has(round).await;
    }
    relay.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_wakes_a_relay_that_would_sleep_for_an_hour() {
    wakes_after(async |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_listener_comes_back_and_misses_nothing() {
    wakes_after(async |place| {
        // Nobody may be listening then; whoever listens again looks first.
        let listens = format!("query = 'listen \"{}.outbox\"'", place.schema);
        assert_eq!(place.end_sessions(&listens).await, 1);
    })
    .await;
}

/// A node that has more to do than fits a batch disarms the bell for all, and may be stopped before it arms it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bell_that_a_node_disarmed_which_is_gone_is_armed_again_by_who_sleeps() {
    wakes_after(async |place| {
        let gone = place.store().await;
        gone.disarm().await.unwrap();
        eventually("it to be armed", async || asleep(place).await).await;
    })
    .await;
}

/// Every notification on the outbox's channel of this place, but for those among nodes.
async fn rings(place: &Place) -> mpsc::UnboundedReceiver<()> {
    rings_of(place, "outbox").await
}

/// Every notification on one of the channels of this place.
pub(crate) async fn rings_of(place: &Place, what: &str) -> mpsc::UnboundedReceiver<()> {
    let (client, mut connection) = tokio_postgres::connect(&place.url, NoTls).await.unwrap();
    let (rung, rings) = mpsc::unbounded_channel();
    let listen = format!("listen \"{}.{what}\"", place.schema);
    let driving = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message
                && notification.payload() != "disarmed"
            {
                let _ = rung.send(());
            }
        }
    });
    client.batch_execute(&listen).await.unwrap();
    tokio::spawn(async move {
        let _ = driving.await;
        drop(client);
    });
    rings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_sleeping_relay_is_rung_and_only_for_what_is_due() {
    let place = Place::new();
    let store = place.store().await;
    let mut rings = rings(&place).await;
    let mut client = place.client().await;
    let held = || NewRow {
        event: event(),
        birth: Birth::Held { owner: "a".into(), grace: Duration::from_secs(10) },
    };
    let late = Event::builder("order.placed").delay(AN_HOUR).json(&1).build().unwrap();

    write(&store, &mut client, &[due(event())]).await;
    assert!(store.arm().await.unwrap());
    write(&store, &mut client, &[held(), due(late)]).await;
    store.disarm().await.unwrap();
    place.run("select sendoff_emit('order.placed', '1')").await;
    assert!(store.arm().await.unwrap());
    place.run("select sendoff_emit('order.placed', '1', delay => '1 hour')").await;
    // One that must ring: notifications come in the order of commits.
    place.run("notify t").await;
    write(&store, &mut client, &[held(), due(event())]).await;
    rings.recv().await.unwrap();
    place.run("select sendoff_emit('order.placed', '1')").await;
    rings.recv().await.unwrap();
    assert!(rings.try_recv().is_err(), "two rings in all");
}

#[tokio::test]
async fn the_flag_is_what_was_said_last() {
    let place = Place::new();
    let store = place.store().await;
    assert!(!asleep(&place).await);
    for armed in [true, true, false, false, true] {
        if armed {
            store.arm().await.unwrap();
        } else {
            store.disarm().await.unwrap();
        }
        assert_eq!(asleep(&place).await, armed);
    }
}

#[tokio::test]
async fn a_ring_is_kept_until_it_is_heard() {
    let place = Place::new();
    let store = place.store().await;
    store.arm().await.unwrap();
    // Beginning to listen is a ring.
    store.rung().await;
    write(&store, &mut place.client().await, &[due(event())]).await;
    for _ in 0..100 {
        let waited = tokio::time::timeout(Duration::from_millis(200), store.rung()).await;
        if waited.is_ok() {
            return;
        }
    }
    panic!("the ring was lost with a dropped future");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_doorbell_off_the_relay_polls_and_nobody_rings() {
    let place = Place::new();
    let options = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    let (store, inbox) = (place.store_with(options).await, Inbox::new());
    place.run("select setval('outbox_bell', 2)").await;
    let mut rings = rings(&place).await;
    let relay = relay(store.clone(), &inbox, Duration::from_millis(20)).await;
    write(&store, &mut place.client().await, &[due(event())]).await;
    inbox.has(1).await;
    assert!(rings.try_recv().is_err());
    relay.close().await;
}

/// PostgreSQL prepares no transaction that notifies. Whoever rang for a relay that sleeps is told so; without
/// the doorbell nobody rings, whoever sleeps.
#[tokio::test]
async fn a_transaction_that_rings_cannot_be_prepared_and_one_without_doorbell_can() {
    let place = Place::new();
    let store = place.store().await;
    let silent =
        place.store_with(PostgresOptions { doorbell: Doorbell::Off, ..place.options() }).await;
    let mut client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let emit = async |client: &Client| {
        client.batch_execute("begin; select sendoff_emit('t', '1')").await.unwrap();
    };
    let gid = Gid::new(&place);
    // Nobody sleeps.
    assert!(!silent.arm().await.unwrap());
    emit(&client).await;
    gid.prepare(&client).await;
    gid.commit(&client).await;

    assert!(store.arm().await.unwrap());
    emit(&client).await;
    let refused = client.batch_execute("prepare transaction 'refused'").await.unwrap_err();
    assert_eq!(
        refused.as_db_error().unwrap().message(),
        "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY"
    );
    client.batch_execute("rollback; begin").await.unwrap();
    silent.insert(&mut client, &[due(event())]).await.unwrap();
    gid.prepare(&client).await;
    gid.commit(&client).await;

    // As a relay that is no more left it.
    client.batch_execute("select setval('outbox_bell', 1)").await.unwrap();
    emit(&client).await;
    gid.prepare(&client).await;
    gid.commit(&client).await;
    assert_eq!(place.rows().await, 3);
}
