//! Each handler has its own queue, its own runs and its own part of the lanes.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Delivery, Event, Failure, Lane, Status, Stopped};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::sink::BatchSink;
use sendoff_engine::{Handler, Outbox, OutboxOptions, at_most};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::{EVENT, HANGS, SECOND, commit, counting, hang, lose_twice, options, slow, unlimited};

const SLOW: &str = "slow";

fn events(event_type: &'static str, count: usize) -> Vec<Event> {
    (0..count).map(|_| Event::json(event_type, &1).unwrap()).collect()
}

fn about(aggregate: &str, event_type: &'static str) -> Event {
    Event::builder(event_type).aggregate(aggregate, "1").json(&1).build().unwrap()
}

async fn fill(store: &MemoryStore, events: impl IntoIterator<Item = Event>) {
    let outbox = Outbox::writer_only(store.clone());
    let mut tx = outbox.begin(store).await.unwrap();
    for event in events {
        tx.emit(event).unwrap();
    }
    tx.commit().await.unwrap();
}

/// How long 400 quick and 40 slow events take beside so many for a handler that never returns.
async fn beside_a_hung_handler(hung: usize, lane: Lane) -> Duration {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let all = [events(HANGS, hung), events(EVENT, 400), events(SLOW, 40)].concat();
    if lane == Lane::Cold {
        for some in all.chunks(1_000) {
            fill(&store, some.to_vec()).await;
        }
    }
    let began = Instant::now();
    let outbox = Outbox::builder(store.clone()).options(unlimited()).on(HANGS, hang);
    let outbox =
        outbox.on(EVENT, inbox.clone()).on(SLOW, slow(&inbox, SECOND)).start().await.unwrap();
    if lane == Lane::Hot {
        for event in &all {
            commit(&outbox, event).await;
        }
    }
    within(60 * SECOND, "the others", async || inbox.received().len() >= 440).await;
    let took = began.elapsed();
    outbox.close().await;
    took
}

/// Holds D8.
#[tokio::test(start_paused = true)]
async fn of_three_handlers_one_never_returns_and_the_others_deliver_at_their_own_pace() {
    for lane in [Lane::Hot, Lane::Cold] {
        let alone = beside_a_hung_handler(0, lane).await;
        let beside = beside_a_hung_handler(2_000, lane).await;
        assert!(beside <= alone + SECOND, "{lane:?}: {alone:?} alone, {beside:?} beside it");
    }
}

/// What is left out is a pair: neither is the other's event claimed in vain, nor does it wait.
#[tokio::test(start_paused = true)]
async fn two_aggregates_with_one_event_name_are_neither_mixed_up_nor_claimed_again_and_again() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, (0..1_000).map(|_| about("hung", EVENT))).await;
    let outbox = Outbox::builder(store.clone()).options(unlimited());
    let outbox = outbox.on_aggregate("hung", EVENT, hang);
    let outbox = outbox.on_aggregate("quick", EVENT, inbox.clone()).start().await.unwrap();
    for second in 1..=60 {
        fill(&store.table, (0..10).map(|_| about("quick", EVENT))).await;
        within(3 * SECOND, "the quick", async || inbox.received().len() == second * 10).await;
    }
    let (asked, claimed) = store.claims();
    assert!(claimed <= 600 + 600, "{claimed} rows were claimed to deliver 600");
    assert!(asked < 1_000, "{asked} claims in a minute");
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_smaller_than_two_claims_starves_nobody() {
    for cold_capacity in [1, 2, 3, 10, 150] {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        fill(&store.table, events(HANGS, 500)).await;
        fill(&store.table, events(EVENT, 300)).await;
        let small = OutboxOptions { cold_capacity, hot_capacity: 1, ..unlimited() };
        let outbox = Outbox::builder(store.clone()).options(small).on(HANGS, hang);
        let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
        within(20 * SECOND, "the others", async || inbox.received().len() == 300).await;
        sleep(60 * SECOND).await;
        let (_, claimed) = store.claims();
        assert!(claimed < 300 + 500, "{cold_capacity}: {claimed} rows were claimed for 300");
        outbox.close().await;
    }
}

/// Their queues are full and their runs go on all the time; a quick one has its own.
#[tokio::test(start_paused = true)]
async fn three_slow_handlers_keep_no_quick_one_waiting() {
    let (store, slow_inbox, inbox) = (Flaky::default(), Inbox::new(), Inbox::new());
    for event_type in ["slow.1", "slow.2", "slow.3"] {
        fill(&store.table, events(event_type, 1_000)).await;
    }
    fill(&store.table, events(EVENT, 500)).await;
    let outbox = Outbox::builder(store.clone()).options(unlimited());
    let outbox = outbox.on("slow.1", slow(&slow_inbox, SECOND));
    let outbox = outbox.on("slow.2", slow(&slow_inbox, SECOND));
    let outbox = outbox.on("slow.3", slow(&slow_inbox, SECOND));
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    within(20 * SECOND, "the quick", async || inbox.received().len() == 500).await;
    let (before, slow_before) = (store.claims().1, slow_inbox.received().len());
    sleep(120 * SECOND).await;
    let (claimed, delivered) =
        (store.claims().1 - before, slow_inbox.received().len() - slow_before);
    assert!(delivered >= 4 * 110, "{delivered} by four workers in 120 s");
    assert!(claimed < 4 * delivered, "{claimed} rows were claimed to deliver {delivered}");
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn suspects_of_a_handler_that_hangs_or_is_busy_keep_nobody_waiting() {
    for busy in [false, true] {
        let (store, slow_inbox, inbox) = (MemoryStore::new(), Inbox::new(), Inbox::new());
        fill(&store, events(HANGS, 5)).await;
        lose_twice(&store).await;
        fill(&store, events(HANGS, 300)).await;
        let times = OutboxOptions { poll_interval: 5 * SECOND, ..unlimited() };
        let outbox = Outbox::builder(store.clone()).options(times);
        let outbox = match busy {
            false => outbox.on(HANGS, hang),
            true => outbox.on(HANGS, slow(&slow_inbox, 10 * SECOND)),
        };
        let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
        sleep(10 * SECOND).await;
        let mut waits = Vec::new();
        for _ in 0..30 {
            let (began, before) = (Instant::now(), inbox.received().len());
            fill(&store, events(EVENT, 10)).await;
            let all = async || inbox.received().len() == before + 10;
            within(60 * SECOND, "the others", all).await;
            waits.push(began.elapsed());
            sleep(SECOND).await;
        }
        waits.sort_unstable();
        let (usual, longest) = (waits[24], waits[29]);
        assert!(usual < 6 * SECOND, "busy: {busy}; no longer than an interval: {usual:?}");
        let most = if busy { 21 } else { 6 };
        assert!(longest < most * SECOND, "busy: {busy}; {longest:?}");
        outbox.close().await;
    }
}

/// Stuck means: nothing is kept for it, and nothing comes back in a loop.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_stuck_handler_is_released_once_and_taken_again_when_a_run_ends() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    // Each of the first two hangs for five minutes.
    let (second, rest) = (SECOND, inbox.clone());
    let stuck = move |delivery: Delivery| {
        let (first, inbox) = (counted.fetch_add(1, Ordering::SeqCst) < 2, rest.clone());
        async move {
            sleep(if first { 300 * second } else { Duration::ZERO }).await;
            inbox.handle(delivery).await
        }
    };
    fill(&store.table, events(HANGS, 100)).await;
    let outbox = Outbox::builder(store.clone()).options(unlimited()).on(HANGS, stuck);
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    sleep(60 * SECOND).await;
    let held = || store.table.rows().iter().filter(|row| row.locked_by.is_some()).count();
    assert_eq!((held(), runs.load(Ordering::SeqCst)), (2, 2), "what waited is released");
    let (_, before) = store.claims();
    sleep(200 * SECOND).await;
    assert_eq!(store.claims().1, before, "and not claimed meanwhile");
    sleep(40 * SECOND).await;
    within(5 * SECOND, "the rest", async || inbox.received().len() == 100).await;
    outbox.close().await;
}

/// Holds D8.
#[tokio::test(start_paused = true)]
async fn a_handler_has_no_more_runs_at_once_than_it_says_or_than_half_of_the_workers() {
    let most = |limit: Option<usize>| async move {
        let (store, (counting, most)) = (MemoryStore::new(), counting());
        fill(&store, events(SLOW, 50)).await;
        let outbox = Outbox::builder(store.clone()).options(options()).on(EVENT, Inbox::new());
        let outbox = match limit.and_then(NonZeroUsize::new) {
            Some(limit) => outbox.on(SLOW, at_most(limit, counting)),
            None => outbox.on(SLOW, counting),
        };
        let outbox = outbox.start().await.unwrap();
        sleep(5 * SECOND).await;
        outbox.close().await;
        most.load(Ordering::SeqCst)
    };
    assert_eq!([most(None).await, most(Some(1)).await, most(Some(4)).await], [2, 1, 4]);
}

/// Without a timer: what waits while a batch is under way is the next one.
#[tokio::test(start_paused = true)]
async fn a_sink_gets_what_waits_for_it_and_what_it_did_not_try_again_at_once_and_uncounted() {
    let (store, batches) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
    let seen = batches.clone();
    let sink = BatchSink::new("batches", move |deliveries: Vec<Delivery>| {
        let numbers: Vec<u32> = deliveries.iter().map(|one| one.read_json().unwrap()).collect();
        seen.lock().unwrap().push(numbers.clone());
        async move {
            match numbers.iter().position(|number| *number == 3) {
                Some(at) => Err(Stopped::after(at, Failure::dead("not this one"))),
                None => Ok(()),
            }
        }
    });
    fill(&store, (0..6_u32).map(|number| Event::json(EVENT, &number).unwrap())).await;
    let outbox = Outbox::builder(store.clone()).options(options());
    let outbox = outbox.on_sink(EVENT, at_most(NonZeroUsize::MIN, sink)).start().await.unwrap();
    let over = async || store.rows().iter().all(|row| !row.status.is_pending());
    within(5 * SECOND, "all of them", over).await;
    let batches = batches.lock().unwrap().clone();
    assert!(batches.len() <= 3, "{batches:?}");
    assert_eq!(batches.last().unwrap(), &[4, 5], "{batches:?}");
    let dead: Vec<_> = store.rows().iter().map(|row| (row.status, row.attempts)).collect();
    assert_eq!(dead[3], (Status::Dead, 1));
    assert!(dead.iter().filter(|end| **end == (Status::Done, 0)).count() == 5, "{dead:?}");
    outbox.close().await;
}
