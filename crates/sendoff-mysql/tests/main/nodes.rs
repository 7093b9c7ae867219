//! Several nodes on one database.

use std::time::Duration;

use sendoff_core::{Delivery, Event};
use sendoff_engine::store::{
    Birth, Claim, ClaimStore, Held, InspectStore, NewRow, Outcome, SettleStore, Settlement,
};
use sendoff_engine::{Handler, Outbox, OutboxConfig};
use sendoff_mysql::{MysqlOptions, Retention};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::history::{Expectations, History, check};
use sendoff_testkit::wait::within;

use crate::place::{MARIADB, MYSQL, Place, by, due, event, write};

const ROWS: u32 = 20_000;

/// Holds S5, S6 and L5, under load: every row exactly once.
async fn two_nodes_drain(server: &str) {
    let place = Place::on(server).await;
    let history = History::new();
    let writer = place.store().await;
    let mut conn = place.conn().await;
    let events: Vec<_> = (0..ROWS).map(|n| Event::json("order.placed", &n).unwrap()).collect();
    for part in events.chunks(1_000) {
        let rows: Vec<_> = part.iter().cloned().map(due).collect();
        write(&writer, &mut conn, &rows).await;
        part.iter().for_each(|event| history.committed(event));
    }
    let mut nodes = Vec::new();
    for node in ["a", "b"] {
        let history = history.clone();
        let handle = move |delivery: Delivery| {
            let run = history.delivery_started(node, &delivery);
            async move {
                run.finished(true);
                Ok(())
            }
        };
        let config = OutboxConfig {
            poll_batch: 500,
            cold_capacity: 1_000,
            poll_interval: Duration::from_millis(50),
            ..OutboxConfig::default()
        };
        let builder = Outbox::builder(place.store().await).config(config);
        nodes.push(builder.on("order.placed", handle).start().unwrap());
    }
    let done = async || writer.counts().await.unwrap().done == u64::from(ROWS);
    within(Duration::from_secs(60), "the backlog to be drained", done).await;
    for node in &nodes {
        node.close().await;
    }
    let verdict = check(&history, &Expectations { healed: false, ..Default::default() });
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!((verdict.delivered, verdict.runs), (u64::from(ROWS), u64::from(ROWS)), "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_drain_a_backlog_and_no_row_is_delivered_twice() {
    two_nodes_drain(MARIADB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_drain_a_backlog_on_mysql_and_no_row_is_delivered_twice() {
    two_nodes_drain(MYSQL).await;
}

/// No duplicates without a fault: a 20 ms listener, two nodes, a poll every 200 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_listeners_and_frequent_polls_deliver_each_event_exactly_once() {
    const EVENTS: usize = 1_500;
    let place = Place::new().await;
    let inbox = Inbox::new();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let inbox = inbox.clone();
        let handle = move |delivery: Delivery| {
            let inbox = inbox.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                inbox.handle(delivery).await
            }
        };
        let config = OutboxConfig {
            poll_interval: Duration::from_millis(200),
            workers: 8,
            hot_capacity: 100,
            ..OutboxConfig::default()
        };
        let builder = Outbox::builder(place.store().await).config(config);
        nodes.push(builder.on("order.placed", handle).start().unwrap());
    }
    let mut conn = place.conn().await;
    for n in 0..EVENTS / 10 {
        let mut tx = nodes[n % 2].begin(&mut conn).await.unwrap();
        for _ in 0..10 {
            tx.emit(event()).unwrap();
        }
        tx.commit().await.unwrap();
    }
    let store = place.store().await;
    let done = async || store.counts().await.unwrap().done == EVENTS as u64;
    within(Duration::from_secs(60), "all to be done", done).await;
    for node in &nodes {
        node.close().await;
    }
    assert_eq!(inbox.received().len(), EVENTS);
}

/// Fault 20: batches that name the same rows in another order wait, and never for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_settle_the_same_rows_never_deadlock() {
    let cases = [
        (MARIADB, Retention::default()),
        (MARIADB, Retention::DeleteWhenDone),
        (MYSQL, Retention::default()),
    ];
    for (server, retention) in cases {
        let place = Place::on(server).await;
        let options = MysqlOptions { retention, ..MysqlOptions::default() };
        let mut stores = Vec::new();
        for _ in 0..3 {
            stores.push(place.store_with(options.clone()).await);
        }
        let mut conn = place.conn().await;
        for _ in 0..20 {
            let rows: Vec<_> = (0..200)
                .map(|_| NewRow {
                    event: event(),
                    birth: Birth::Held { owner: "a".into(), grace: Duration::from_secs(60) },
                })
                .collect();
            let born = write(&stores[0], &mut conn, &rows).await;
            let held: Vec<_> = rows
                .iter()
                .zip(&born)
                .map(|(row, born)| Held::row(row.event.id(), born.token.unwrap()))
                .collect();
            let mut tasks = Vec::new();
            for (at, store) in stores.iter().cloned().enumerate() {
                let mut held = held.clone();
                fastrand::Rng::with_seed(at as u64).shuffle(&mut held);
                tasks.push(tokio::spawn(async move {
                    if at == 0 {
                        return store.extend(&held, Duration::from_secs(60)).await.unwrap().len();
                    }
                    let outcomes = [
                        Outcome::Done,
                        Outcome::Released,
                        Outcome::Dead { attempts: 1, error: "no".into() },
                    ];
                    let batch: Vec<_> = held
                        .into_iter()
                        .zip(outcomes.into_iter().cycle())
                        .map(|(held, outcome)| Settlement { held, outcome })
                        .collect();
                    store.settle(&batch).await.unwrap().len()
                }));
            }
            let mut won = 0;
            for task in tasks {
                won += task.await.unwrap();
            }
            assert_eq!(won, 200, "each row went to one of them");
        }
    }
}

/// Holds S9: several databases in one process.
#[tokio::test]
async fn outboxes_in_one_process_do_not_meet() {
    let (one, two) = (Place::new().await, Place::new().await);
    let (first, second) = (one.store().await, two.store().await);
    write(&first, &mut one.conn().await, &[due(event())]).await;
    assert!(second.claim(&by("a")).await.unwrap().is_empty());
    let claim = Claim { limit: 10, ..by("a") };
    assert_eq!(first.claim(&claim).await.unwrap().len(), 1);
}
