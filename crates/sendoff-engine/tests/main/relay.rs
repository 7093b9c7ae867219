//! A relay on a store that fails; what it does on a good one is the testkit's suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, Failure, Status};
use sendoff_engine::capture::WriteError;
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{BatchReport, ClaimMode, Consumer, Relay, RelayOptions};
use sendoff_engine::sink::StatisticsSink;
use sendoff_engine::store::{Claim, ClaimStore, Outcome, Row, StoreError};
use sendoff_engine::{Before, Counters, HandlerOptions, Outbox, RetryOptions};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::{eventually, within};

use tokio::time::Instant;

use crate::flaky::Flaky;

async fn write(store: &MemoryStore, count: usize) {
    let outbox = Outbox::writer_only(store.clone());
    let mut tx = store.transaction().unwrap();
    for _ in 0..count {
        outbox.write(&mut tx, Event::json("t", &1).unwrap()).await.unwrap().release();
    }
    tx.commit().unwrap();
}

fn relay(store: &Flaky, mode: ClaimMode, counters: &Arc<Counters>) -> (Relay, Arc<AtomicUsize>) {
    let options = RelayOptions { mode, workers: 3, ..RelayOptions::default() };
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let relay = Relay::builder(store.clone()).options(options).metrics(counters.clone());
    let relay = relay.build(move |_: Delivery| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    (relay.unwrap(), runs)
}

/// Interceptors are around a relay's deliveries too, and a sink gets what a handler would.
#[tokio::test(start_paused = true)]
async fn interceptors_are_around_what_a_sink_gets() {
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let (store, calls) = (MemoryStore::new(), Arc::new(AtomicUsize::new(0)));
        write(&store, 3).await;
        let (before, taken) = (calls.clone(), StatisticsSink::default());
        let options = RelayOptions { mode, ..RelayOptions::default() };
        let relay = Relay::builder(store.clone()).options(options);
        let relay = relay
            .intercept(Before(move |_: &Delivery| match before.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Failure::dead("not this one")),
                _ => Ok(()),
            }))
            .build_to(taken.clone())
            .unwrap();
        let report = relay.process_once().await.unwrap().unwrap();
        assert_eq!((report.done, report.dead, taken.seen().events), (2, 1, 2));
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }
}

/// Nothing is claimed for a sink that says it is not healthy, and no attempt counts.
#[tokio::test(start_paused = true)]
async fn nothing_is_taken_for_a_sink_that_is_not_healthy() {
    let store = MemoryStore::new();
    write(&store, 3).await;
    let latch = Latch::new("p");
    latch.set_healthy(false);
    let relay = Relay::builder(store.clone()).build_to(latch.clone()).unwrap();
    assert_eq!(relay.process_once().await.unwrap(), None);
    assert!(store.rows().iter().all(|row| row.attempts == 0 && row.locked_by.is_none()));
    latch.set_healthy(true);
    assert_eq!(relay.process_once().await.unwrap().unwrap().done, 3);
}

/// Holds L1: one fetch error, or a hundred, ends no worker, and they are not asked for in a rush.
#[tokio::test(start_paused = true)]
async fn fetch_errors_back_off_and_every_worker_goes_on_afterwards() {
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let (store, counters) = (Flaky::default(), Arc::new(Counters::default()));
        let (relay, runs) = relay(&store, mode, &counters);
        let story = async {
            // Started while it was there.
            store.set_down(true);
            write(&store.table, 200).await;
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
    let (store, counters) = (Flaky::default(), Arc::new(Counters::default()));
    write(&store.table, 10).await;
    store.fail_settlements(3);
    let (relay, runs) = relay(&store, ClaimMode::Held, &counters);
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

const MODES: [ClaimMode; 2] = [ClaimMode::Held, ClaimMode::Locked];

fn statuses(store: &Flaky, status: Status) -> usize {
    store.table.rows().iter().filter(|row| row.status == status).count()
}

/// A handler that fails for every seventh event, in words that LATIN1 does not have.
fn failing(store: &Flaky, mode: ClaimMode) -> Relay {
    let runs = AtomicUsize::new(0);
    let options = RelayOptions {
        mode,
        retry: RetryOptions { base: Duration::from_secs(60), ..RetryOptions::default() },
        ..Default::default()
    };
    let relay = Relay::builder(store.clone()).options(options).build(move |_: Delivery| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move {
            if run % 7 == 3 { Err(Failure::retry("5 \u{20ac} is too \0 much")) } else { Ok(()) }
        }
    });
    relay.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_refused_brings_no_other_of_its_batch_back() {
    for mode in MODES {
        let store = Flaky::default();
        write(&store.table, 21).await;
        store.refuse_strange_text();
        let report = failing(&store, mode).process_once().await.unwrap();
        let expected = BatchReport { done: 18, retried: 3, ..BatchReport::default() };
        assert_eq!(report, Some(expected), "{mode:?}");
        assert_eq!(statuses(&store, Status::Done), 18);
        for row in store.table.rows().iter().filter(|row| row.status == Status::Retry) {
            assert_eq!((row.attempts, row.last_error.as_deref()), (1, Some("5 ? is too   much")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_that_cannot_be_recorded_is_counted_and_ends() {
    for mode in MODES {
        let store = Flaky::default();
        write(&store.table, 5).await;
        let refused = store.table.rows()[2].event.id();
        store.refuse_where(move |id, outcome| id == refused && *outcome == Outcome::Done);
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let second = Duration::from_secs(1);
        let options = RelayOptions {
            mode,
            retry: RetryOptions { max: second, max_attempts: 3, ..RetryOptions::default() },
            ..RelayOptions::default()
        };
        let relay = Relay::builder(store.clone()).options(options).build(move |_: Delivery| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        });
        let end = within(180 * second, "its end", async || statuses(&store, Status::Dead) == 1);
        relay.unwrap().run(end).await;
        assert_eq!(statuses(&store, Status::Done), 4);
        assert_eq!(runs.load(Ordering::Relaxed), 4 + 3, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_locked_row_holds_no_other_back_and_no_worker_either() {
    let (store, counters) = (Flaky::default(), Arc::new(Counters::default()));
    write(&store.table, 10).await;
    let locked = store.table.rows()[4].event.id();
    let lock = Arc::new(std::sync::Mutex::new(None));
    let (table, taken) = (store.table.clone(), lock.clone());
    let options = RelayOptions { workers: 1, ..RelayOptions::default() };
    let relay = Relay::builder(store.clone()).options(options).metrics(counters.clone());
    // Locked by somebody while its handler runs.
    let relay = relay.build(move |delivery: Delivery| {
        if delivery.id() == locked {
            *taken.lock().unwrap() = table.lock_row(locked);
        }
        async { Ok(()) }
    });
    let relay = relay.unwrap();
    let story = async {
        eventually("the others", async || statuses(&store, Status::Done) == 9).await;
        write(&store.table, 5).await;
        let began = Instant::now();
        eventually("new ones", async || statuses(&store, Status::Done) == 14).await;
        assert!(began.elapsed() < Duration::from_secs(3));
        tokio::time::sleep(Duration::from_secs(10)).await;
        lock.lock().unwrap().take();
        eventually("that one", async || statuses(&store, Status::Done) == 15).await;
    };
    relay.run(story).await;
    assert!(store.table.rows().iter().all(|row| row.attempts == 0));
}

#[tokio::test(start_paused = true)]
async fn holds_of_rows_that_are_locked_for_a_while_are_not_lost() {
    let store = Flaky::default();
    write(&store.table, 3).await;
    let ids: Vec<_> = store.table.rows().iter().map(|row| row.event.id()).collect();
    let (table, runs) = (store.table.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = runs.clone();
    let options = RelayOptions {
        handler: HandlerOptions {
            start_within: Duration::from_secs(600),
            ..HandlerOptions::default()
        },
        ..RelayOptions::default()
    };
    let relay = Relay::builder(store.clone()).options(options).build(move |delivery: Delivery| {
        counted.fetch_add(1, Ordering::Relaxed);
        let lock = (delivery.id() == ids[0]).then(|| table.lock_row(ids[2]));
        async move {
            // Past the first extension, and short of the hold's end.
            tokio::time::sleep(Duration::from_secs(25)).await;
            drop(lock);
            tokio::time::sleep(Duration::from_secs(25)).await;
            Ok(())
        }
    });
    let report = relay.unwrap().process_once().await.unwrap();
    assert_eq!(report, Some(BatchReport { done: 3, ..BatchReport::default() }));
    assert_eq!(runs.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_locked_batch_whose_handlers_run_long_keeps_its_transaction_awake() {
    let store = Flaky::default();
    write(&store.table, 2).await;
    store.limit_idleness(Duration::from_secs(15));
    let (mode, start_within) = (ClaimMode::Locked, Duration::from_secs(600));
    let options = RelayOptions {
        mode,
        handler: HandlerOptions { start_within, ..HandlerOptions::default() },
        ..RelayOptions::default()
    };
    let relay = Relay::builder(store.clone()).options(options).build(async |_: Delivery| {
        tokio::time::sleep(Duration::from_secs(40)).await;
        Ok(())
    });
    let report = relay.unwrap().process_once().await.unwrap();
    assert_eq!(report, Some(BatchReport { done: 2, ..BatchReport::default() }));
}

#[tokio::test(start_paused = true)]
async fn a_locked_batch_that_lost_its_transaction_delivers_no_more() {
    let (store, runs) = (Flaky::default(), Arc::new(AtomicUsize::new(0)));
    write(&store.table, 5).await;
    store.limit_idleness(Duration::from_secs(15));
    let options = RelayOptions { mode: ClaimMode::Locked, ..RelayOptions::default() };
    let (counted, down) = (runs.clone(), store.clone());
    let relay = Relay::builder(store.clone()).options(options).build(move |_: Delivery| {
        counted.fetch_add(1, Ordering::Relaxed);
        down.set_down(true);
        async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(())
        }
    });
    assert!(relay.unwrap().process_once().await.is_err());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let as_it_was = |row: &Row| (row.status, row.attempts) == (Status::New, 0);
    assert!(store.table.rows().iter().all(as_it_was));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_locked_batch_is_not_waited_for_without_limit() {
    let store = Flaky::default();
    write(&store.table, 2).await;
    let options = RelayOptions { mode: ClaimMode::Locked, ..RelayOptions::default() };
    let consumer = Consumer::new(store.clone(), options).unwrap();
    for rolls_back in [true, false] {
        let batch = consumer.fetch().await.unwrap().unwrap();
        store.hang_next();
        let began = Instant::now();
        let ended =
            if rolls_back { batch.rollback().await } else { batch.commit().await.map(drop) };
        assert!(matches!(ended, Err(StoreError::Timeout)), "{ended:?}");
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }
    assert!(consumer.fetch().await.unwrap().is_some(), "the rows are free again");
}

/// What ran here and was somebody else's by then is counted, as an outbox counts it.
#[tokio::test(start_paused = true)]
async fn what_a_relay_settles_too_late_is_counted_as_fenced() {
    let (clock, counters) = (ManualClock::new(), Arc::new(Counters::default()));
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    write(&store, 1).await;
    let others = store.clone();
    let relay = Relay::builder(store.clone()).metrics(counters.clone());
    let relay = relay.build(move |_: Delivery| {
        let (clock, others) = (clock.clone(), others.clone());
        async move {
            // By the database's clock the hold has run out, and somebody else has the row.
            clock.advance(Duration::from_secs(120));
            let claim = Claim::new("another", 1, Duration::from_secs(60));
            assert_eq!(others.claim(&claim).await.unwrap().rows.len(), 1);
            Ok(())
        }
    });
    let report = relay.unwrap().process_once().await.unwrap().unwrap();
    assert_eq!((report.done, report.fenced, counters.values().fenced), (0, 1, 1));
}
