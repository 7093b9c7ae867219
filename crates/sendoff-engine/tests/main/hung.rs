//! Handlers that hang cost their workers, and nobody else anything.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sendoff_core::{Delivery, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions};
use sendoff_engine::{
    Handler, HandlerOptions, Outbox, OutboxOptions, RetryOptions, at_most, blocking,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::{eventually, within};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{EVENT, HANGS, SECOND, commit, event, fill, hang, options, row, unlimited};

fn held(store: &MemoryStore) -> usize {
    store.rows().iter().filter(|row| row.locked_by.is_some()).count()
}

/// May have every worker, which a handler among others has only where somebody says so.
fn all_workers(handler: impl Handler) -> impl Handler {
    at_most(NonZeroUsize::new(4).unwrap(), handler)
}

#[tokio::test(start_paused = true)]
async fn what_waits_while_handlers_hang_is_delivered_by_a_healthy_node() {
    for in_flight_ttl in [None, Some(20 * SECOND)] {
        let (store, inbox) = (MemoryStore::new(), Inbox::new());
        fill(&store, HANGS, 4).await;
        let sick = OutboxOptions { in_flight_ttl, ..unlimited() };
        let sick = Outbox::builder(store.clone()).options(sick);
        let sick = sick.on(HANGS, all_workers(hang)).on(EVENT, hang).start().await.unwrap();
        eventually("every worker in it", async || held(&store) == 4).await;
        fill(&store, EVENT, 700).await;
        eventually("full lanes", async || held(&store) > 500).await;
        let healthy = Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone());
        let healthy = healthy.on(HANGS, inbox.clone()).start().await.unwrap();
        within(60 * SECOND, "the others", async || inbox.received().len() >= 700).await;
        let events = store.rows().into_iter().filter(|row| row.event.event_type() == EVENT);
        assert!(events.clone().all(|row| (row.status, row.attempts) == (Status::Done, 0)));
        assert!(sick.close().await.cut_off);
        healthy.close().await;
    }
}

/// One worker is left, and slow: what it cannot begin in time is not kept from others.
#[tokio::test(start_paused = true)]
async fn a_node_with_one_worker_left_keeps_no_more_than_it_can_begin() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, HANGS, 3).await;
    fill(&store, EVENT, 700).await;
    let slow = async |_: Delivery| {
        sleep(SECOND).await;
        Ok(())
    };
    let sick = Outbox::builder(store.clone()).options(unlimited());
    let sick = sick.on(HANGS, all_workers(hang)).on(EVENT, slow);
    let sick = sick.start().await.unwrap();
    eventually("full lanes", async || held(&store) > 500).await;
    let healthy = Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone());
    let healthy = healthy.start().await.unwrap();
    let done = async || {
        let rows = store.rows();
        rows.iter().filter(|row| row.status == Status::Done).count() == 700
    };
    within(120 * SECOND, "all of them", done).await;
    assert!(inbox.received().len() > 500, "{}", inbox.received().len());
    sick.close().await;
    healthy.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_workers_are_all_stuck_takes_nothing_until_one_is_free() {
    let (store, inbox, end) = (MemoryStore::new(), Inbox::new(), Arc::new(Notify::new()));
    let told = end.clone();
    let wait = move |_: Delivery| {
        let told = told.clone();
        async move {
            told.notified().await;
            Ok(())
        }
    };
    let outbox = Outbox::builder(store.clone()).options(unlimited()).on(HANGS, all_workers(wait));
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    fill(&store, HANGS, 4).await;
    sleep(60 * SECOND).await;
    fill(&store, EVENT, 100).await;
    let hot = commit(&outbox, &event()).await;
    for _ in 0..60 {
        sleep(10 * SECOND).await;
        assert_eq!(held(&store), 4, "the four that hang, and nothing that waits");
    }
    assert_eq!(row(&store, hot).locked_by, None);
    end.notify_one();
    within(5 * SECOND, "the rest", async || inbox.received().len() == 101).await;
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_event_takes_no_second_worker_but_another_node_may_have_it() {
    let (store, inbox, runs) = (MemoryStore::new(), Inbox::new(), Arc::new(AtomicUsize::new(0)));
    fill(&store, HANGS, 1).await;
    let counted = runs.clone();
    let counting = move |delivery: Delivery| {
        counted.fetch_add(1, Ordering::SeqCst);
        hang(delivery)
    };
    let limits = OutboxOptions { in_flight_ttl: Some(5 * SECOND), workers: 2, ..unlimited() };
    let sick = Outbox::builder(store.clone()).options(limits).on(HANGS, counting);
    let sick = sick.on(EVENT, inbox.clone()).start().await.unwrap();
    sleep(600 * SECOND).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    fill(&store, EVENT, 10).await;
    within(10 * SECOND, "the others", async || inbox.received().len() == 10).await;
    let healthy = Outbox::builder(store.clone()).options(options()).on(HANGS, inbox.clone());
    let healthy = healthy.on(EVENT, inbox.clone()).start().await.unwrap();
    within(120 * SECOND, "a takeover", async || inbox.received().len() == 11).await;
    sick.close().await;
    healthy.close().await;
}

/// Holds L3: also for who sets nothing.
#[tokio::test(start_paused = true)]
async fn by_default_a_hung_handler_is_a_failed_attempt_after_five_minutes() {
    let store = MemoryStore::new();
    fill(&store, HANGS, 1).await;
    let outbox = Outbox::builder(store.clone()).on(HANGS, hang).start().await.unwrap();
    sleep(299 * SECOND).await;
    assert_eq!(store.rows()[0].attempts, 0);
    sleep(2 * SECOND).await;
    let ended = store.rows().remove(0);
    assert_eq!(ended.last_error.as_deref(), Some("handler did not finish within 300s"));
    outbox.close().await;

    let relay = Relay::builder(store.clone()).build(hang).unwrap();
    relay.run(sleep(301 * SECOND)).await;
    assert!(store.rows()[0].attempts >= 2);
}

/// A thread cannot be ended. Its worker goes on, and its event is not begun beside itself.
#[tokio::test]
async fn a_blocking_handler_that_was_left_behind_is_not_begun_a_second_time() {
    let (store, inbox, runs) = (MemoryStore::new(), Inbox::new(), Arc::new(AtomicUsize::new(0)));
    let (end, ended) = mpsc::channel::<()>();
    let (counted, ended) = (runs.clone(), Mutex::new(ended));
    let stuck = blocking(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = ended.lock().unwrap().recv();
        Ok(())
    });
    let limits = OutboxOptions {
        workers: 1,
        handler: HandlerOptions {
            timeout: Some(Duration::from_millis(20)),
            ..HandlerOptions::default()
        },
        retry: RetryOptions { base: Duration::from_millis(1), ..RetryOptions::default() },
        poll_interval: Duration::from_millis(20),
        ..OutboxOptions::default()
    };
    let outbox = Outbox::builder(store.clone()).options(limits).on(HANGS, stuck);
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    fill(&store, HANGS, 1).await;
    let put_off = async || {
        let row = store.rows().into_iter().find(|row| row.event.event_type() == HANGS).unwrap();
        row.attempts == 1 && row.last_error.is_some_and(|error| error.contains("earlier run"))
    };
    within(20 * SECOND, "it to be put off", put_off).await;
    fill(&store, EVENT, 5).await;
    within(20 * SECOND, "the others", async || inbox.received().len() == 5).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    drop(end);
    outbox.close().await;
}

/// Leased rows are released while the handler before them hangs, locked ones when it is timed out.
#[tokio::test(start_paused = true)]
async fn a_relay_releases_what_waits_while_a_handler_hangs() {
    let limits = [(ClaimMode::Held, None), (ClaimMode::Locked, Some(40 * SECOND))];
    for (mode, handler_timeout) in limits {
        let (store, inbox) = (MemoryStore::new(), Inbox::new());
        fill(&store, HANGS, 1).await;
        fill(&store, EVENT, 20).await;
        let options = RelayOptions {
            mode,
            workers: 1,
            handler: HandlerOptions { timeout: handler_timeout, ..HandlerOptions::default() },
            ..RelayOptions::default()
        };
        let sick = Relay::builder(store.clone()).options(options.clone()).build(hang).unwrap();
        let stop = Arc::new(Notify::new());
        let told = stop.clone();
        let sick = tokio::spawn(async move { sick.run(told.notified()).await });
        sleep(SECOND).await;
        let healthy = Relay::builder(store.clone()).options(options).build(inbox.clone()).unwrap();
        let done =
            async || store.rows().iter().filter(|row| row.status == Status::Done).count() >= 20;
        healthy.run(within(45 * SECOND, "the others", done)).await;
        stop.notify_one();
        sick.await.unwrap();
        assert_eq!(held(&store), 0, "{mode:?}");
    }
}
