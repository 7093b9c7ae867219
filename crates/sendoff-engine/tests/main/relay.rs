//! A relay on a store that fails; what it does on a good one is the testkit's suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, Failure, Status};
use sendoff_engine::Outbox;
use sendoff_engine::capture::WriteError;
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{BatchReport, ClaimMode, Relay, RelayConfig, RelayCounters};
use sendoff_testkit::wait::eventually;

use crate::flaky::Flaky;

async fn write(store: &MemoryStore, count: usize) {
    let outbox = Outbox::writer_only(store.clone());
    let mut tx = store.transaction().unwrap();
    for _ in 0..count {
        outbox.write(&mut tx, Event::json("t", &1).unwrap()).await.unwrap().release();
    }
    tx.commit().unwrap();
}

fn relay(
    store: &Flaky,
    mode: ClaimMode,
    counters: &Arc<RelayCounters>,
) -> (Relay, Arc<AtomicUsize>) {
    let config = RelayConfig { mode, workers: 3, ..RelayConfig::default() };
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let relay = Relay::builder(store.clone()).config(config).metrics(counters.clone());
    let relay = relay.build(move |_: Delivery| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    (relay.unwrap(), runs)
}

/// Holds L1: one fetch error, or a hundred, ends no worker, and they are not asked for in a rush.
#[tokio::test(start_paused = true)]
async fn fetch_errors_back_off_and_every_worker_goes_on_afterwards() {
    for mode in [ClaimMode::Lease, ClaimMode::Locked] {
        let (store, counters) = (Flaky::default(), Arc::new(RelayCounters::default()));
        store.set_down(true);
        write(&store.table, 200).await;
        let (relay, runs) = relay(&store, mode, &counters);
        let story = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let errors = counters.values().errors;
            // Doubling from 100 ms to 5 s, and 2.5 to 5 s each time from then on.
            assert!((30..100).contains(&errors), "{errors} fetches of three workers in a minute");
            store.set_down(false);
            eventually("the work", async || runs.load(Ordering::Relaxed) == 200).await;
        };
        relay.run(story).await;
        assert!(store.table.rows().iter().all(|row| row.status == Status::Done));
    }
}

/// Holds L4 and D12: handlers did their work; a settlement that fails is tried again.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_fails_is_not_a_failed_delivery() {
    let (store, counters) = (Flaky::default(), Arc::new(RelayCounters::default()));
    write(&store.table, 10).await;
    store.fail_settlements(3);
    let (relay, runs) = relay(&store, ClaimMode::Lease, &counters);
    let report = relay.process_once().await.unwrap();
    assert_eq!(report, Some(BatchReport { done: 10, ..BatchReport::default() }));
    assert_eq!(runs.load(Ordering::Relaxed), 10);
    assert!(store.table.rows().iter().all(|row| (row.status, row.attempts) == (Status::Done, 0)));
}

/// Holds L2: by default the back-off doubles; a poison event does not burn its attempts at once.
#[tokio::test(start_paused = true)]
async fn attempts_are_not_burnt_by_immediate_retries() {
    let store = MemoryStore::new();
    write(&store, 1).await;
    let relay = Relay::builder(store.clone()).build(async |_: Delivery| Err(Failure::retry("no")));
    let relay = relay.unwrap();
    relay.run(tokio::time::sleep(Duration::from_secs(5))).await;
    let attempts = store.rows()[0].attempts;
    assert!((3..=7).contains(&attempts), "{attempts} attempts in five seconds");
}

/// Holds T1 and E9: refused before anything is stored.
#[tokio::test]
async fn a_topic_takes_json_objects_only_and_delays_them() {
    let store = MemoryStore::new();
    let outbox = Outbox::writer_only(store.clone());
    let mut tx = store.transaction().unwrap();
    let none = Duration::ZERO;
    for payload in [serde_json::json!([1]), serde_json::json!("text"), serde_json::json!(null)] {
        let error = outbox.enqueue(&mut tx, "topic", &payload, none).await.unwrap_err();
        assert!(matches!(error, WriteError::Invalid(_)), "{error:?}");
        assert_eq!(error.to_string(), "payload must be a JSON object, such as {\"id\": 1}");
    }
    let unserialisable = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(outbox.enqueue(&mut tx, "topic", &unserialisable, none).await.is_err());
    let late = Duration::from_secs(90);
    let object = serde_json::json!({ "item": 42 });
    outbox.enqueue(&mut tx, "topic", &object, late).await.unwrap().release();
    tx.commit().unwrap();
    let rows = store.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].due_at.since(rows[0].created_at), late);
}
