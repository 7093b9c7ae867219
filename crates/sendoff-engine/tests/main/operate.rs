//! Metrics, lag, retention and logs.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Event, Failure, Status, Unroutable};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::{
    CounterValues, Counters, HandlerOptions, Metrics, NoMetrics, Outbox, OutboxOptions,
    RetryOptions,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::logs::Lines;
use sendoff_testkit::wait::eventually;

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, event, options, row};

/// Holds M1, P5.
#[tokio::test(start_paused = true)]
async fn everything_that_happens_is_counted() {
    let (store, inbox) = (MemoryStore::new(), Inbox::stepping().failing());
    let counters = Arc::new(Counters::default());
    let options = OutboxOptions {
        workers: 1,
        hot_capacity: 1,
        retry: RetryOptions { max_attempts: 1, ..RetryOptions::default() },
        ..options()
    };
    let outbox = Outbox::builder(store.clone())
        .options(options)
        .on(EVENT, inbox.clone())
        .on("fine", Inbox::new())
        .metrics(counters.clone())
        .start()
        .await
        .unwrap();
    let mut tx = outbox.begin(&store).await.unwrap();
    for _ in 0..3 {
        tx.emit(event()).unwrap();
    }
    tx.emit(Event::json("fine", &1).unwrap()).unwrap();
    tx.commit().await.unwrap();
    eventually("the overflow in the cold lane", async || counters.values().cold_enqueued == 2)
        .await;
    inbox.allow(3);
    let over = async || store.rows().iter().all(|row| row.status.is_terminal());
    eventually("everything to end", over).await;
    outbox.close().await;
    let values = counters.values();
    let expected = CounterValues {
        written: 4,
        hot_enqueued: 2,
        hot_dropped: 2,
        cold_enqueued: 2,
        succeeded: 1,
        failed: 3,
        dead: 3,
        oldest_lag: values.oldest_lag,
        next_overdue: values.next_overdue,
        oldest_in_flight: values.oldest_in_flight,
        runs: values.runs.clone(),
        ..CounterValues::default()
    };
    assert_eq!(values, expected);
}

/// Holds P5, M1.
#[tokio::test(start_paused = true)]
async fn the_age_of_the_oldest_pending_event_is_reported() {
    let store = MemoryStore::new();
    commit(&Outbox::writer_only(store.clone()), &event()).await;
    let counters = Arc::new(Counters::default());
    let options = OutboxOptions { poller_enabled: false, ..options() };
    let outbox =
        Outbox::builder(store).options(options).metrics(counters.clone()).start().await.unwrap();
    tokio::time::sleep(90 * SECOND).await;
    let CounterValues { oldest_lag, next_overdue, .. } = counters.values();
    for lag in [oldest_lag, next_overdue] {
        assert!((88 * SECOND..=90 * SECOND).contains(&lag), "{lag:?}");
    }
    outbox.close().await;
}

/// Holds M1: off by default, and then nothing is measured that costs a query.
#[test]
fn metrics_are_off_unless_asked_for() {
    assert!(!NoMetrics.enabled());
    assert!(Counters::default().enabled());
}

#[tokio::test(start_paused = true)]
async fn delivered_rows_are_deleted_when_their_retention_is_over() {
    let hour = Duration::from_secs(3_600);
    let store = MemoryStore::new().keeping_for(7 * hour);
    let inbox = Inbox::new();
    let outbox = Outbox::builder(store.clone()).on(EVENT, inbox.clone()).start().await.unwrap();
    let id = commit(&outbox, &event()).await;
    eventually("its end", async || row(&store, id).status == Status::Done).await;
    tokio::time::sleep(6 * hour).await;
    assert_eq!(store.rows().len(), 1);
    tokio::time::sleep(2 * hour).await;
    assert!(store.rows().is_empty());
    outbox.close().await;
}

/// Everything at every level.
pub(crate) fn logging() -> (Lines, tracing::subscriber::DefaultGuard) {
    Lines::keep(tracing::Level::TRACE)
}

/// Holds M3.
#[tokio::test(start_paused = true)]
async fn a_hot_drop_warns_and_dead_loop_errors_and_broken_rows_are_errors() {
    let (lines, _guard) = logging();
    let store = Flaky::default();
    let writer = Outbox::writer_only(store.table.clone());
    let spoilt = commit(&writer, &event()).await;
    store.table.spoil(spoilt);
    store.fail_claims(1);
    let poller = Outbox::builder(store.clone())
        .options(options())
        .on(EVENT, |_: sendoff_core::Delivery| async { Err(Failure::dead("no use")) })
        .start()
        .await
        .unwrap();
    let doomed = commit(&writer, &event()).await;
    let over = async || store.table.rows().iter().all(|row| row.status == Status::Dead);
    eventually("both to be dead", over).await;
    poller.close().await;

    let options = OutboxOptions { workers: 1, hot_capacity: 1, poller_enabled: false, ..options() };
    let full = Outbox::builder(MemoryStore::new()).options(options).on(EVENT, Inbox::stepping());
    let full = full.start().await.unwrap();
    let mut tx = full.begin(full.store()).await.unwrap();
    for _ in 0..3 {
        tx.emit(event()).unwrap();
    }
    tx.commit().await.unwrap();

    for (message, level, about) in [
        ("hot lane full", "WARN", "event.id"),
        ("event is dead", "ERROR", doomed.to_string().as_str()),
        ("poll failed", "ERROR", "told to fail"),
        ("stored row cannot be decoded", "ERROR", spoilt.to_string().as_str()),
    ] {
        let found = lines.with(message);
        assert!(!found.is_empty(), "{message}: {}", lines.text());
        assert!(found.iter().all(|line| line.contains(&format!("\"{level}\""))), "{found:?}");
        assert!(found.iter().any(|line| line.contains(about)), "{message}: {found:?}");
    }
}

/// Holds M4: whatever happens to an event, its payload and header values are in no log line.
#[tokio::test(start_paused = true)]
async fn payloads_and_header_values_are_never_logged() {
    const CANARY: &str = "sing-no-song";
    let (lines, _guard) = logging();
    let store = MemoryStore::new();
    let options = OutboxOptions {
        retry: RetryOptions { max_attempts: 2, ..RetryOptions::default() },
        handler: HandlerOptions { unroutable: Unroutable::Dead, ..HandlerOptions::default() },
        ..options()
    };
    let outbox = Outbox::builder(store.clone())
        .options(options)
        .on("fails", Inbox::new().failing())
        .on("misread", |delivery: sendoff_core::Delivery| async move {
            delivery.read_json::<u32>()?;
            Ok(())
        })
        .on("panics", |_: sendoff_core::Delivery| async { std::panic::panic_any("told to") })
        .on("fine", Inbox::new())
        .start()
        .await
        .unwrap();
    for name in ["fails", "misread", "panics", "fine", "nobody"] {
        let event = Event::builder(name).header("secret", CANARY).json(CANARY).build().unwrap();
        assert!(!format!("{event:?}").contains(CANARY));
        commit(&outbox, &event).await;
    }
    let over = async || store.rows().iter().all(|row| row.status.is_terminal());
    eventually("everything to end", over).await;
    outbox.close().await;
    assert!(lines.text().lines().count() > 5);
    assert!(!lines.text().contains(CANARY), "{}", lines.text());
    let errors: Vec<_> = store.rows().into_iter().filter_map(|row| row.last_error).collect();
    assert!(errors.iter().all(|error| !error.contains(CANARY)), "{errors:?}");
}
