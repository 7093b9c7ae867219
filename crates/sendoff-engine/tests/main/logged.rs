//! What the log says on a bad night, and how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sendoff_core::{Delivery, Failure, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::{Outbox, OutboxOptions, RetryOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use serde_json::Value;
use tokio::time::sleep;

use super::flaky::Flaky;
use super::operate::logging;
use super::{EVENT, SECOND, commit, event, options};

fn fields(line: &str) -> Value {
    serde_json::from_str::<Value>(line).unwrap()["fields"].clone()
}

/// Holds M3: told at first and once a minute, and once when it is over.
#[tokio::test(start_paused = true)]
async fn a_database_that_fails_for_minutes_is_told_of_once_a_minute_and_once_when_it_is_back() {
    let (lines, _guard) = logging();
    let store = Flaky::default();
    let outbox = Outbox::builder(store.clone()).options(options()).on(EVENT, Inbox::new());
    let outbox = outbox.start().await.unwrap();
    sleep(SECOND).await;
    store.set_down(true);
    sleep(150 * SECOND).await;
    store.set_down(false);
    let back = "the database is back: events are claimed";
    within(30 * SECOND, back, async || !lines.with(back).is_empty()).await;
    sleep(60 * SECOND).await;
    outbox.close().await;
    let failed = lines.with("poll failed");
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert!(fields(&failed[2])["failures"].as_u64().unwrap() > 3, "{}", failed[2]);
    assert_eq!(lines.with(back).len(), 1);
}

/// Holds M3: each line says what failed, which attempt of how many it was, and when the next one is.
#[tokio::test(start_paused = true)]
async fn failures_and_dead_events_name_type_attempt_and_next_try_and_are_summed_up() {
    let (lines, _guard) = logging();
    let store = MemoryStore::new();
    let mut options = options();
    options.retry = RetryOptions { max_attempts: 2, ..RetryOptions::default() };
    // Poison, which must not look like an outage.
    options.handler.circuit.opens_after = 0;
    let outbox = Outbox::builder(store.clone())
        .options(options)
        .on(EVENT, |_: Delivery| async { Err(Failure::retry("no such mailbox")) })
        .start()
        .await
        .unwrap();
    for _ in 0..100 {
        commit(&outbox, &event()).await;
    }
    let dead = async || store.rows().iter().all(|row| row.status == Status::Dead);
    within(60 * SECOND, "all to be dead", dead).await;
    sleep(61 * SECOND).await;
    commit(&outbox, &event()).await;
    within(60 * SECOND, "the last", dead).await;
    outbox.close().await;
    for (message, attempt) in [("delivery failed", "attempt"), ("event is dead", "attempts")] {
        let said = lines.with(message);
        assert!((10..=25).contains(&said.len()), "{message}: {} lines for a hundred", said.len());
        let first = fields(&said[0]);
        assert_eq!(first["event.type"], EVENT, "{first}");
        assert_eq!(first["of"], 2, "{first}");
        assert!(first[attempt].as_u64().is_some_and(|n| n <= 2), "{first}");
        assert!(first["error"].as_str().unwrap().contains("no such mailbox"), "{first}");
        let unwritten: u64 =
            said.iter().map(|line| fields(line)["not_logged"].as_u64().unwrap_or(0)).sum();
        assert_eq!(unwritten + said.len() as u64, 101, "{message}: none is forgotten");
    }
    assert!(fields(&lines.with("delivery failed")[0])["next_try"].is_string());
}

/// Holds M6.
#[tokio::test(start_paused = true)]
async fn a_target_that_is_unavailable_is_told_of_when_it_begins_once_a_minute_and_when_it_is_over()
{
    let (lines, _guard) = logging();
    let (store, away) = (MemoryStore::new(), Arc::new(AtomicBool::new(true)));
    let is_away = away.clone();
    let handler = move |_: Delivery| {
        let away = is_away.load(Ordering::SeqCst);
        async move {
            if away {
                Err("the warehouse said no")?
            }
            Ok(())
        }
    };
    let outbox = Outbox::builder(store.clone()).on(EVENT, handler).start().await.unwrap();
    for _ in 0..20 {
        commit(&outbox, &event()).await;
    }
    sleep(150 * SECOND).await;
    away.store(false, Ordering::SeqCst);
    let over = async || store.rows().iter().all(|row| row.status == Status::Done);
    within(60 * SECOND, "all", over).await;
    outbox.close().await;
    let count = |message| lines.with(message).len();
    assert_eq!(count("the target is unavailable: its events wait, and no attempt is used up"), 1);
    assert_eq!(count("the target is still unavailable"), 2);
    assert_eq!(count("the target is back: its events go on"), 1);
}

/// Holds D8.
#[tokio::test(start_paused = true)]
async fn one_worker_for_several_handlers_is_said_at_start() {
    for (workers, said) in [(1, 1), (2, 0)] {
        let (lines, _guard) = logging();
        let options = OutboxOptions { workers, ..options() };
        let outbox = Outbox::builder(MemoryStore::new()).options(options);
        let outbox = outbox.on(EVENT, Inbox::new()).on("other", Inbox::new());
        outbox.start().await.unwrap().close().await;
        assert_eq!(lines.with("one worker for several handlers").len(), said, "{workers}");
    }
}
