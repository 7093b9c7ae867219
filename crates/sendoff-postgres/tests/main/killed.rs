//! The server is killed under load.

use std::time::Duration;

use sendoff_core::{Delivery, Event};
use sendoff_engine::capture::CommitError;
use sendoff_engine::store::InspectStore;
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::history::{Entry, Expectations, Fault, FaultKind, History, check};
use sendoff_testkit::wait::within;
use tokio_util::sync::CancellationToken;

use crate::place::{Place, connect};
use crate::server::Server;

const EVENT: &str = "order.placed";
const PLENTY: Duration = Duration::from_secs(90);
const KILLS: usize = 5;

/// Fault 2: five times; nothing lost, nothing twice that a kill does not explain, and every process
/// lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_killed_under_load_loses_nothing() {
    let Some(mut server) = Server::start() else { return };
    let place = Place::in_schema(server.url(), "public".to_owned());
    let history = History::new();
    let mut nodes = Vec::new();
    for node in ["a", "b"] {
        nodes.push(relay(&place, node, &history).await);
    }
    let stop = CancellationToken::new();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let outbox = nodes[writer % 2].clone();
            tokio::spawn(write(outbox, place.url.clone(), history.clone(), stop.clone()))
        })
        .collect();

    let delivered = |history: &History| {
        history.entries().iter().filter(|entry| matches!(entry, Entry::Finished { .. })).count()
    };
    for _ in 0..KILLS {
        let before = delivered(&history);
        within(PLENTY, "work", async || delivered(&history) > before + 100).await;
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
    let store = PostgresStore::connect_with(&place.url, place.options()).await.unwrap();
    let terminal = async || store.counts().await.is_ok_and(|counts| counts.pending() == 0);
    within(PLENTY, "everything to end", terminal).await;
    for node in &nodes {
        node.close().await;
    }
    resolve(&history, &store).await;
    let verdict = check(&history, &Expectations { healed: true, ..Expectations::default() });
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.written > 500 && verdict.faults == 3 * KILLS as u64, "{verdict}");
    std::mem::forget(place);
}

async fn relay(place: &Place, node: &'static str, history: &History) -> Outbox<PostgresStore> {
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
        store_timeout: Some(Duration::from_secs(2)),
        ..OutboxOptions::default()
    };
    let builder = Outbox::builder(place.store().await).options(options);
    builder.on(EVENT, handler).start().unwrap()
}

/// Writes until it is told to stop, reconnecting as often as it must.
async fn write(
    outbox: Outbox<PostgresStore>,
    url: String,
    history: History,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let Ok(mut client) = connect(&url).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while !stop.is_cancelled() {
            let event = Event::json(EVENT, &1).unwrap();
            history.unknown(&event);
            let Ok(mut tx) = outbox.begin(&mut client).await else {
                history.rolled_back(&event);
                break;
            };
            tx.emit(&event).unwrap();
            match tx.commit().await {
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
async fn resolve(history: &History, store: &PostgresStore) {
    let mut known = std::collections::BTreeMap::new();
    for entry in history.entries() {
        if let Entry::Written { id, outcome, .. } = entry {
            known.insert(id, outcome);
        }
    }
    for (id, outcome) in known {
        if let Some(row) = store.find(id).await.unwrap() {
            if outcome == sendoff_testkit::history::WriteOutcome::Unknown {
                history.committed(&row.event);
            }
            history.stands(id, row.status, row.attempts);
        }
    }
}
