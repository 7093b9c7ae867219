//! A server that is killed, and comes back.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "test code, in a library")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Event};
use sendoff_engine::capture::CommitError;
use sendoff_engine::store::InspectStore;
use sendoff_engine::{NodeOptions, Outbox, OutboxOptions};
use tokio_util::sync::CancellationToken;

use super::{OwnServer, Served};
use crate::history::{Entry, Expectations, Fault, FaultKind, History, WriteOutcome, check};
use crate::wait::{answer, within};

const EVENT: &str = "order.placed";
const PLENTY: Duration = Duration::from_secs(90);
const KILLS: usize = 5;

/// Faults 1 and 2: five times; nothing lost, nothing twice that a kill does not explain, nothing of what
/// was open when it was killed, and every process lives on.
pub async fn a_server_killed_under_load_loses_nothing<S: OwnServer>(mut server: S) {
    let (database, history) = (Arc::new(server.database().await), History::new());
    let mut nodes = Vec::new();
    for node in ["a", "b"] {
        nodes.push(relay(&*database, node, &history).await);
    }
    let stop = CancellationToken::new();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let outbox = nodes[writer % 2].clone();
            tokio::spawn(write(outbox, database.clone(), history.clone(), stop.clone()))
        })
        .collect();

    let delivered = |history: &History| {
        history.entries().iter().filter(|entry| matches!(entry, Entry::Finished { .. })).count()
    };
    for _ in 0..KILLS {
        let before = delivered(&history);
        within(PLENTY, "work", async || delivered(&history) > before + 100).await;
        let (mut open, lost) = (connected(&*database).await, Event::json(EVENT, &1).unwrap());
        S::Database::begin(&mut open).await;
        drop(nodes[0].write(&mut open, &lost).await.unwrap());
        history.rolled_back(&lost);
        history.fault(Fault::everywhere(FaultKind::Crash));
        server.kill();
        // What was in hand when it went down may be settled, or not, until everybody is back.
        history.fault(Fault::everywhere(FaultKind::Restart));
        server.up();
        history.fault(Fault::everywhere(FaultKind::Restart));
    }
    let before = delivered(&history);
    within(PLENTY, "work after the last kill", async || delivered(&history) > before + 100).await;
    stop.cancel();
    for writer in writers {
        writer.await.unwrap();
    }
    let store = database.store().await;
    let terminal = async || store.counts().await.is_ok_and(|counts| counts.pending() == 0);
    within(PLENTY, "everything to end", terminal).await;
    for node in &nodes {
        node.close().await;
    }
    resolve(&history, &store).await;
    let verdict = check(&history, &Expectations { healed: true, ..Expectations::default() });
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.written > 500 && verdict.faults == 3 * KILLS as u64, "{verdict}");
}

async fn connected<D: Served>(database: &D) -> D::Conn {
    answer("a connection", async || database.connect().await).await
}

async fn relay<D: Served>(database: &D, node: &'static str, history: &History) -> Outbox<D::Store> {
    let history = history.clone();
    let handler = move |delivery: Delivery| {
        let run = history.delivery_started(node, &delivery);
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            run.finished(true);
            Ok(())
        }
    };
    let options = OutboxOptions {
        poll_interval: Duration::from_millis(100),
        // Longer than a restart and everybody's way back to it take, so that nothing runs out.
        hold: Duration::from_secs(10),
        node: NodeOptions { store_timeout: Some(Duration::from_secs(2)), ..NodeOptions::default() },
        ..OutboxOptions::default()
    };
    let builder = Outbox::builder(database.store().await).options(options);
    builder.on(EVENT, handler).start().await.unwrap()
}

/// Writes until it is told to stop, reconnecting as often as it must.
async fn write<D: Served>(
    outbox: Outbox<D::Store>,
    database: Arc<D>,
    history: History,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let Some(mut conn) = database.connect().await else {
            // Asks again until it is told to stop; whoever tells it has a deadline.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while !stop.is_cancelled() {
            let event = Event::json(EVENT, &1).unwrap();
            history.unknown(&event);
            match D::commit(&mut conn, &outbox, &event).await {
                Ok(()) => history.committed(&event),
                Err(CommitError::Unknown { .. }) => break,
                Err(_) => {
                    history.rolled_back(&event);
                    break;
                }
            }
        }
    }
}

/// The table knows what the writers could not.
async fn resolve(history: &History, store: &impl InspectStore) {
    let mut known = BTreeMap::new();
    for entry in history.entries() {
        if let Entry::Written { id, outcome, .. } = entry {
            known.insert(id, outcome);
        }
    }
    for (id, outcome) in known {
        if let Some(row) = store.find(id).await.unwrap() {
            if outcome == WriteOutcome::Unknown {
                history.committed(&row.event);
            }
            history.stands(id, row.status, row.attempts);
        }
    }
}
