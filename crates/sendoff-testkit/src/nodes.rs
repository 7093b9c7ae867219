//! Several nodes on one database: what they promise together, on every server.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Event};
use sendoff_engine::store::{
    Birth, Born, Held, InspectStore, NewRow, OutboxStore, Outcome, SettleStore, Settlement,
};
use sendoff_engine::{Handler, Outbox, OutboxOptions};

use crate::acceptance::Inbox;
use crate::history::{Expectations, History, check};
use crate::wait::within;

/// A database, and an application that writes to it.
#[async_trait]
pub trait NodesHarness: Send + Sync {
    /// The store.
    type Store: OutboxStore + Clone;

    /// Another node's store, on the same tables.
    async fn store(&self) -> Self::Store;

    /// Commits these rows.
    async fn write(&self, store: &Self::Store, rows: &[NewRow]) -> Vec<Born>;

    /// Commits these events through the outbox, in one transaction.
    async fn emit(&self, outbox: &Outbox<Self::Store>, events: &[Event]);
}

const ROWS: u32 = 20_000;

fn event() -> Event {
    Event::json_text("order.placed", "{}").unwrap()
}

fn due(event: Event) -> NewRow {
    NewRow { event, birth: Birth::Due }
}

/// S5 and S6, under load: every row exactly once.
pub async fn two_nodes_drain_a_backlog(harness: &impl NodesHarness) {
    let history = History::new();
    let writer = harness.store().await;
    let events: Vec<_> = (0..ROWS).map(|n| Event::json("order.placed", &n).unwrap()).collect();
    for part in events.chunks(1_000) {
        let rows: Vec<_> = part.iter().cloned().map(due).collect();
        harness.write(&writer, &rows).await;
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
        let options = OutboxOptions {
            poll_batch: 500,
            cold_capacity: 1_000,
            poll_interval: Duration::from_millis(50),
            ..OutboxOptions::default()
        };
        let builder = Outbox::builder(harness.store().await).options(options);
        nodes.push(builder.on("order.placed", handle).start().await.unwrap());
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

/// No duplicates without a fault: a 20 ms handler, two nodes, a poll every 200 ms.
pub async fn slow_handlers_and_frequent_polls(harness: &impl NodesHarness) {
    const EVENTS: usize = 1_500;
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
        let options = OutboxOptions {
            poll_interval: Duration::from_millis(200),
            workers: 8,
            hot_capacity: 100,
            ..OutboxOptions::default()
        };
        let builder = Outbox::builder(harness.store().await).options(options);
        nodes.push(builder.on("order.placed", handle).start().await.unwrap());
    }
    for n in 0..EVENTS / 10 {
        let events: Vec<_> = (0..10).map(|_| event()).collect();
        harness.emit(&nodes[n % 2], &events).await;
    }
    let store = harness.store().await;
    let done = async || store.counts().await.unwrap().done == EVENTS as u64;
    within(Duration::from_secs(60), "all to be done", done).await;
    for node in &nodes {
        node.close().await;
    }
    assert_eq!(inbox.received().len(), EVENTS);
}

/// Fault 20: batches that name the same rows in another order wait, and never for each other.
pub async fn nodes_settle_the_same_rows(harness: &impl NodesHarness) {
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(harness.store().await);
    }
    for _ in 0..20 {
        let rows: Vec<_> = (0..200)
            .map(|_| NewRow {
                event: event(),
                birth: Birth::Held { owner: "a".into(), grace: Duration::from_secs(60) },
            })
            .collect();
        let born = harness.write(&stores[0], &rows).await;
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
                    return store.extend(&held, Duration::from_secs(60)).await.unwrap().held.len();
                }
                let outcomes = [Outcome::Done, Outcome::Released, Outcome::dead(1, "no")];
                let batch: Vec<_> = held
                    .into_iter()
                    .zip(outcomes.into_iter().cycle())
                    .map(|(held, outcome)| Settlement { held, outcome })
                    .collect();
                store.settle(&batch).await.unwrap().applied.len()
            }));
        }
        let mut won = 0;
        for task in tasks {
            won += task.await.unwrap();
        }
        assert_eq!(won, 200, "each row went to one of them");
    }
}
