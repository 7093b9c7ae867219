//! Settlements that fail, are refused, are fenced or gather.

use std::sync::Arc;

use sendoff_core::Status;
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{Claim, ClaimStore};
use sendoff_engine::{Counters, Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::wait::eventually;
use tokio::time::Instant;

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, event, options, row};

async fn fill(store: &MemoryStore, count: usize) {
    let writer = Outbox::writer_only(store.clone());
    for _ in 0..count {
        commit(&writer, &event()).await;
    }
}

/// Holds D12.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_fails_is_tried_again_and_nothing_is_delivered_twice() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, 5).await;
    store.fail_settlements(6);
    let outbox =
        Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    let done = async || store.table.rows().iter().all(|row| row.status == Status::Done);
    eventually("all to be done", done).await;
    assert!(store.table.rows().iter().all(|row| row.attempts == 0 && row.last_error.is_none()));
    assert_eq!(inbox.received().len(), 5);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_the_database_refuses_does_not_hold_back_the_others() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, 8).await;
    let refused = store.table.rows()[3].event.id();
    store.refuse(refused);
    let outbox =
        Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    let others = async || {
        let rows = store.table.rows();
        rows.iter().filter(|row| row.status == Status::Done).count() == 7
    };
    eventually("the others to be done", others).await;
    assert_eq!(row(&store.table, refused).status, Status::New);
    outbox.close().await;
}

/// No timer: completions gather only while a statement is under way.
#[tokio::test(start_paused = true)]
async fn one_event_is_settled_at_once_and_many_together() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    fill(&store.table, 64).await;
    let options = OutboxOptions { workers: 64, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    let done = |count| {
        let table = store.table.clone();
        async move || table.rows().iter().filter(|r| r.status == Status::Done).count() >= count
    };
    inbox.allow(1);
    eventually("the first", done(1)).await;
    assert_eq!(store.batches(), 1);
    let begun = Instant::now();
    inbox.allow(63);
    eventually("the rest", done(64)).await;
    assert!(begun.elapsed() < SECOND / 10);
    assert!(store.batches() < 10, "{} statements for 63 events", store.batches());
    outbox.close().await;
}

/// What never ran here is delivered once, by whoever has it now: nothing to tell an operator of.
#[tokio::test(start_paused = true)]
async fn a_release_that_comes_too_late_is_not_counted_as_fenced() {
    let clock = ManualClock::new();
    let (store, inbox) = (MemoryStore::with_clock(Arc::new(clock.clone())), Inbox::stepping());
    let counters = Arc::new(Counters::default());
    let options = OutboxOptions { workers: 1, poller_enabled: false, ..options() };
    let outbox = Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone());
    let outbox = outbox.metrics(counters.clone()).start().await.unwrap();
    let ids = [commit(&outbox, &event()).await, commit(&outbox, &event()).await];
    // By the database's clock both holds are over, before this node had a reason to think so.
    clock.advance(3_600 * SECOND);
    let stolen = store.claim(&Claim::new("thief", 2, 60 * SECOND)).await.unwrap().rows;
    assert_eq!(stolen.len(), 2);
    inbox.allow(1);
    outbox.close().await;
    assert!(ids.iter().all(|id| row(&store, *id).locked_by.as_deref() == Some("thief")));
    // One ran here, and the other did not.
    assert_eq!((inbox.received().len(), counters.values().fenced), (1, 1));
}

/// A node that was stopped past its hold cannot settle what became somebody else's.
#[tokio::test(start_paused = true)]
async fn a_zombie_is_fenced_and_counted() {
    let (store, inbox) = (MemoryStore::new(), Inbox::stepping());
    let counters = Arc::new(Counters::default());
    let outbox = Outbox::builder(store.clone())
        .options(OutboxOptions { in_flight_ttl: Some(SECOND), poller_enabled: false, ..options() })
        .on(EVENT, inbox.clone())
        .metrics(counters.clone())
        .start()
        .await
        .unwrap();
    let id = commit(&outbox, &event()).await;
    tokio::time::sleep(12 * SECOND).await;
    let claim = Claim::new("thief", 1, 60 * SECOND);
    let stolen = store.claim(&claim).await.unwrap().rows;
    assert!(stolen[0].lost && stolen[0].id == id);
    inbox.allow(1);
    eventually("the fence", async || counters.values().fenced == 1).await;
    let row = row(&store, id);
    assert_eq!((row.status, row.locked_by.as_deref()), (Status::New, Some("thief")));
    outbox.close().await;
}
