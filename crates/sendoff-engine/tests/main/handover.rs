//! The lanes: what takes which, full lanes, and polling.

use sendoff_core::{Lane, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{Claim, ClaimStore};
use sendoff_engine::{HandlerOptions, LaneDepths, Outbox, OutboxOptions, RetryOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::{eventually, within};
use tokio::time::Instant;

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, event, options, row};

async fn fill(store: &MemoryStore, count: usize) {
    let writer = Outbox::writer_only(store.clone());
    let mut tx = writer.begin(store).await.unwrap();
    for _ in 0..count {
        tx.emit(event()).unwrap();
    }
    tx.commit().await.unwrap();
}

/// Holds P1: one poll by hand; the poller itself can be off.
#[tokio::test(start_paused = true)]
async fn one_poll_claims_what_is_visible() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let options = OutboxOptions { poller_enabled: false, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    fill(&store, 3).await;
    tokio::time::sleep(60 * SECOND).await;
    assert!(inbox.received().is_empty(), "nobody polls by itself");
    assert!(outbox.poll().await.unwrap());
    inbox.has(3).await;
    outbox.close().await;
}

/// Holds P1: also what was lost with two processes, which runs alone.
#[tokio::test(start_paused = true)]
async fn one_poll_takes_suspects_too() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, 3).await;
    for owner in ["first", "second"] {
        let claim = Claim::new(owner, 3, SECOND);
        assert_eq!(store.claim(&claim).await.unwrap().rows.len(), 3);
        tokio::time::sleep(2 * SECOND).await;
    }
    let options = OutboxOptions { poller_enabled: false, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    assert!(outbox.poll().await.unwrap());
    assert_eq!(inbox.received().len(), 3, "each had run before the next was claimed");
    outbox.close().await;
    assert!(store.rows().iter().all(|row| row.status == Status::Done));
}

/// Holds P1, P2: the interval is for idling, not a rate limit.
#[tokio::test(start_paused = true)]
async fn a_backlog_is_drained_without_waiting_for_the_interval() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, 5_000).await;
    let options = OutboxOptions { poll_interval: 3_600 * SECOND, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    let begun = Instant::now();
    inbox.has(5_000).await;
    assert!(begun.elapsed() < SECOND);
    outbox.close().await;
    assert_eq!(inbox.ids().len(), 5_000, "each exactly once");
}

/// Holds P2: a full lane stops the poller, and what is not claimed stays as it is.
#[tokio::test(start_paused = true)]
async fn no_more_is_claimed_than_the_cold_lane_holds() {
    let (store, inbox) = (MemoryStore::new(), Inbox::stepping());
    fill(&store, 100).await;
    let options = OutboxOptions { workers: 1, cold_capacity: 10, poll_batch: 4, ..options() };
    let options =
        OutboxOptions { handler: HandlerOptions { timeout: None, ..options.handler }, ..options };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    let held = || store.rows().iter().filter(|row| row.locked_by.is_some()).count();
    eventually("the lane to fill", async || outbox.lane_depths().cold >= 7).await;
    tokio::time::sleep(600 * SECOND).await;
    assert!(outbox.lane_depths().cold <= 10);
    assert!(held() <= 11, "one in work and ten in the lane at most: {}", held());
    inbox.allow(100);
    inbox.has(100).await;
    outbox.close().await;
    assert!(store.rows().iter().all(|row| row.status == Status::Done && row.attempts == 0));
}

/// Holds P3.
#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_decoded_is_dead_and_the_rest_goes_on() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, 3).await;
    let spoilt = store.rows()[1].event.id();
    assert!(store.spoil(spoilt));
    let outbox = Outbox::builder(store.clone()).on(EVENT, inbox.clone()).start().await.unwrap();
    inbox.has(2).await;
    eventually("the spoilt row to be dead", async || row(&store, spoilt).status == Status::Dead)
        .await;
    assert!(!inbox.ids().contains(&spoilt));
    assert!(row(&store, spoilt).last_error.unwrap().contains("cannot be decoded"));
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_database_is_polled_again_with_growing_pauses() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    store.fail_claims(5);
    fill(&store.table, 1).await;
    let outbox =
        Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    let begun = Instant::now();
    inbox.has(1).await;
    // 100, 200, 400, 800 ms and then the interval.
    let took = begun.elapsed().as_millis();
    assert!((2_500..2_600).contains(&took), "{took}");
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_taken_when_it_is_due_and_not_when_the_interval_is_over() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new().failing());
    let options = OutboxOptions {
        poll_interval: 60 * SECOND,
        retry: RetryOptions { max_attempts: 2, ..RetryOptions::default() },
        ..options()
    };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    let begun = Instant::now();
    let id = commit(&outbox, &event()).await;
    eventually("its end", async || row(&store, id).status == Status::Dead).await;
    // 200 ms, times 0.5 to 1.5.
    assert!(begun.elapsed() < SECOND / 2, "{:?}", begun.elapsed());
    assert_eq!(inbox.lanes(), [Lane::Hot, Lane::Cold]);
    outbox.close().await;
}

/// A handler that takes longer than its hold keeps it: holds are extended while in work.
#[tokio::test(start_paused = true)]
async fn a_long_run_is_not_taken_over_by_another_node() {
    let (store, inbox, other) = (MemoryStore::new(), Inbox::stepping(), Inbox::new());
    let unlimited = OutboxOptions {
        handler: HandlerOptions { timeout: None, ..HandlerOptions::default() },
        ..options()
    };
    let slow =
        Outbox::builder(store.clone()).options(unlimited).on(EVENT, inbox.clone()).start().await;
    let slow = slow.unwrap();
    let id = commit(&slow, &event()).await;
    let waiting =
        Outbox::builder(store.clone()).options(options()).on(EVENT, other.clone()).start().await;
    let waiting = waiting.unwrap();
    tokio::time::sleep(3_600 * SECOND).await;
    inbox.allow(1);
    eventually("its end", async || row(&store, id).status == Status::Done).await;
    assert!(other.received().is_empty());
    assert_eq!(inbox.received().len(), 1);
    slow.close().await;
    waiting.close().await;
}

/// Holds D3: with a limit on its time in work, a run that hangs is taken over.
#[tokio::test(start_paused = true)]
async fn with_a_ttl_a_run_that_hangs_is_taken_over() {
    let (store, inbox, other) = (MemoryStore::new(), Inbox::stepping(), Inbox::new());
    let ttl = Some(60 * SECOND);
    let impatient = OutboxOptions { in_flight_ttl: ttl, poller_enabled: false, ..options() };
    let slow =
        Outbox::builder(store.clone()).options(impatient).on(EVENT, inbox.clone()).start().await;
    let slow = slow.unwrap();
    let id = commit(&slow, &event()).await;
    let next =
        Outbox::builder(store.clone()).options(options()).on(EVENT, other.clone()).start().await;
    let next = next.unwrap();
    let begun = Instant::now();
    within(600 * SECOND, "a takeover", async || !other.received().is_empty()).await;
    let took = begun.elapsed();
    assert!((60 * SECOND..95 * SECOND).contains(&took), "{took:?}");
    eventually("its end", async || row(&store, id).status == Status::Done).await;
    next.close().await;
    drop(slow);
}

#[tokio::test]
async fn lane_depths_of_an_outbox_that_only_writes_are_zero() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    assert_eq!(outbox.lane_depths(), LaneDepths::default());
    assert!(outbox.poll().await.unwrap());
}
