//! What must not stop a node, nor hold rows for ever.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Event, Failure, Jitter, RetryPolicy, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{Claim, ClaimStore, Suspects};
use sendoff_engine::{
    CircuitOptions, HandlerOptions, HandlerResult, Metrics, Outbox, OutboxOptions, RetryOptions,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{sleep, timeout};

use super::flaky::Flaky;
use super::{EVENT, SECOND, options, row};

async fn fill(store: &MemoryStore, event_type: &str, count: usize) {
    let writer = Outbox::writer_only(store.clone());
    let mut tx = writer.begin(store).await.unwrap();
    for _ in 0..count {
        tx.emit(Event::json(event_type, &1).unwrap()).unwrap();
    }
    tx.commit().await.unwrap();
}

fn claim(owner: &str, suspects: Suspects) -> Claim<'_> {
    Claim { suspects, ..Claim::new(owner, 1_000, SECOND) }
}

/// Every row there is has been held by two nodes that vanished.
async fn lose_twice(store: &MemoryStore) {
    for owner in ["first", "second"] {
        assert!(!store.claim(&claim(owner, Suspects::Skip)).await.unwrap().rows.is_empty());
        sleep(2 * SECOND).await;
    }
}

async fn hang(_: Delivery) -> HandlerResult {
    std::future::pending().await
}

fn held(store: &MemoryStore) -> usize {
    store.rows().iter().filter(|row| row.locked_by.is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_beside_a_suspect_does_not_stop_the_poller() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, EVENT, 1).await;
    lose_twice(&store).await;
    fill(&store, "hangs", 1).await;
    let outbox = Outbox::builder(store.clone()).options(options()).on("hangs", hang);
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    sleep(10 * SECOND).await;
    fill(&store, EVENT, 5).await;
    within(60 * SECOND, "the others, the suspect too", async || inbox.received().len() == 6).await;
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_hangs_does_not_stop_the_poller() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, "hangs", 1).await;
    lose_twice(&store).await;
    let outbox = Outbox::builder(store.clone()).options(options()).on("hangs", hang);
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    sleep(10 * SECOND).await;
    fill(&store, EVENT, 5).await;
    within(60 * SECOND, "the others", async || inbox.received().len() == 5).await;
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn polling_by_hand_and_by_itself_at_once_takes_turns_with_suspects() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, EVENT, 2).await;
    lose_twice(&store).await;
    fill(&store, "slow", 1).await;
    let slow = |_: Delivery| async {
        sleep(5 * SECOND).await;
        Ok(())
    };
    let outbox = Outbox::builder(store.clone()).options(options()).on("slow", slow);
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    sleep(SECOND).await;
    timeout(60 * SECOND, outbox.poll()).await.unwrap().unwrap();
    fill(&store, EVENT, 7).await;
    within(60 * SECOND, "all of them", async || inbox.received().len() == 9).await;
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_is_dropped_holds_nothing() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, EVENT, 1).await;
    lose_twice(&store).await;
    fill(&store, "slow", 1).await;
    let slow = |_: Delivery| async {
        sleep(20 * SECOND).await;
        Ok(())
    };
    let by_hand = OutboxOptions { poller_enabled: false, ..options() };
    let outbox = Outbox::builder(store.clone()).options(by_hand).on("slow", slow);
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    assert!(timeout(SECOND / 2, outbox.poll()).await.is_err(), "it waits to be alone");
    sleep(30 * SECOND).await;
    assert_eq!(held(&store), 0);
    outbox.poll().await.unwrap();
    inbox.has(1).await;
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_under_way_does_not_hold_up_the_close() {
    let store = MemoryStore::new();
    fill(&store, EVENT, 1).await;
    lose_twice(&store).await;
    fill(&store, "hangs", 1).await;
    let by_hand = OutboxOptions { poller_enabled: false, poll_interval: 60 * SECOND, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(by_hand).on("hangs", hang).start().await.unwrap();
    let poll = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.poll().await }
    });
    sleep(SECOND).await;
    let closed = outbox.close().await;
    assert!(closed.cut_off && !closed.unsettled);
    assert!(poll.await.unwrap().is_ok());
    assert_eq!(held(&store), 0);
}

#[derive(Debug)]
struct Overflows;

impl RetryPolicy for Overflows {
    fn delay(&self, _: u32, _: Jitter) -> Duration {
        Duration::MAX * 2
    }
}

struct Panics;

impl Metrics for Panics {
    fn succeeded(&self) {
        std::panic::panic_any("told to");
    }

    fn cold_enqueued(&self) {
        std::panic::panic_any("told to");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_or_metrics_that_panic_stop_nobody() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let outbox = Outbox::builder(store.clone())
        .options(options())
        .retry(Overflows)
        .metrics(Arc::new(Panics))
        .on("bad", |_: Delivery| async { Err(Failure::retry("no")) })
        .on(EVENT, inbox.clone())
        .start()
        .await
        .unwrap();
    // Fewer than it takes for their target to count as unavailable.
    fill(&store, "bad", 4).await;
    sleep(10 * SECOND).await;
    assert!(store.rows().iter().all(|row| row.status == Status::Retry && row.attempts == 1));
    fill(&store, EVENT, 10).await;
    within(60 * SECOND, "the good ones", async || inbox.received().len() == 10).await;
    outbox.close().await;
}

/// A database that is away for longer than a hold explains no duplicate on the node that did the
/// work: nobody else took the rows.
#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_a_hold_delivers_nothing_twice() {
    for outage in [31, 35, 41, 42, 43, 44, 45, 46, 60, 120] {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        fill(&store.table, EVENT, 100).await;
        let many = OutboxOptions { workers: 100, ..options() };
        let (down, seen) = (store.clone(), inbox.clone());
        let handler = move |delivery: Delivery| {
            if seen.received().is_empty() {
                down.set_down(true);
            }
            let inbox = seen.clone();
            async move { sendoff_engine::Handler::handle(&inbox, delivery).await }
        };
        let outbox = Outbox::builder(store.clone()).options(many).on(EVENT, handler.clone());
        let outbox = outbox.start().await.unwrap();
        sleep(outage * SECOND).await;
        store.set_down(false);
        let done = async || store.table.rows().iter().all(|row| row.status == Status::Done);
        within(120 * SECOND, "all to be done", done).await;
        assert_eq!(inbox.received().len(), 100, "after {outage} s");
        assert!(store.table.rows().iter().all(|row| row.attempts == 0), "after {outage} s");
        outbox.close().await;
    }
}

/// The time limit on work does not count the wait for it.
#[tokio::test(start_paused = true)]
async fn a_long_queue_in_front_of_a_ttl_delivers_nothing_twice() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, EVENT, 60).await;
    let node = async || {
        let inbox = inbox.clone();
        let handler = move |delivery: Delivery| {
            let inbox = inbox.clone();
            async move {
                sleep(20 * SECOND).await;
                sendoff_engine::Handler::handle(&inbox, delivery).await
            }
        };
        let ttl = Some(60 * SECOND);
        let options = OutboxOptions { in_flight_ttl: ttl, workers: 2, ..options() };
        Outbox::builder(store.clone()).options(options).on(EVENT, handler).start().await.unwrap()
    };
    let nodes = [node().await, node().await];
    let done = async || store.rows().iter().all(|row| row.status == Status::Done);
    within(3_600 * SECOND, "all to be done", done).await;
    assert_eq!(inbox.received().len(), 60);
    for node in nodes {
        node.close().await;
    }
}

/// Failures before a crash do not slow down what follows it.
#[tokio::test(start_paused = true)]
async fn retries_lost_in_a_crash_are_recovered_at_full_speed() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new().failing());
    fill(&store, EVENT, 500).await;
    let once = OutboxOptions {
        retry: RetryOptions { base: 60 * SECOND, ..RetryOptions::default() },
        handler: HandlerOptions { circuit: CircuitOptions::off(), ..HandlerOptions::default() },
        ..options()
    };
    let first = Outbox::builder(store.clone()).options(once).on(EVENT, inbox.clone()).start().await;
    let first = first.unwrap();
    let failed = async || store.rows().iter().all(|row| row.status == Status::Retry);
    within(60 * SECOND, "all to fail once", failed).await;
    first.close().await;
    sleep(120 * SECOND).await;
    assert_eq!(store.claim(&claim("vanished", Suspects::Skip)).await.unwrap().rows.len(), 500);
    sleep(2 * SECOND).await;

    let inbox = Inbox::new();
    let next =
        Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone()).start().await;
    let next = next.unwrap();
    within(2 * SECOND, "a crash to be recovered from", async || inbox.received().len() == 500)
        .await;
    next.close().await;
}

/// A second caller waits for the first, and hears the same.
#[tokio::test(start_paused = true)]
async fn two_closes_at_once_end_together() {
    let store = MemoryStore::new();
    let outbox =
        Outbox::builder(store.clone()).options(options()).on("hangs", hang).start().await.unwrap();
    fill(&store, "hangs", 1).await;
    outbox.poll().await.unwrap();
    let (first, second) = tokio::join!(outbox.close(), outbox.close());
    assert_eq!(first, second);
    assert!(first.cut_off);
    assert_eq!(row(&store, store.rows()[0].event.id()).locked_by, None);
}
