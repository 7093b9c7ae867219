//! Waiting until events are over: told by this node, found by looking, never for longer than was asked.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sendoff_core::{AuditNote, Delivery, Event, EventId, Failure};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{
    Claim, ClaimStore, Cutoff, Outcome, Purge, RetainStore, SettleStore, Settlement,
};
use sendoff_engine::{
    AwaitError, Awaited, CaughtUp, DeadLetters, HandlerResult, Outbox, OutboxOptions, RetryOptions,
};
use sendoff_testkit::acceptance::Inbox;
use tokio::time::Instant;

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, event, options, slow};

const MINUTE: Duration = Duration::from_secs(60);

async fn fails(_: Delivery) -> HandlerResult {
    Err(Failure::dead("no such customer"))
}

/// What is pending ends so, by another node's hand.
async fn end_all(store: &MemoryStore, outcome: Outcome) {
    let claimed = store.claim(&Claim::new("elsewhere", 1_000, SECOND)).await.unwrap().rows;
    let end = |held| Settlement { held, outcome: outcome.clone() };
    let batch: Vec<_> = claimed.iter().map(|row| end(row.held())).collect();
    store.settle(&batch).await.unwrap();
}

fn dead(error: &str) -> Outcome {
    Outcome::dead(1, error)
}

/// What is delivered here is told of at once, and nobody looks for it.
/// Holds W11.
#[tokio::test(start_paused = true)]
async fn who_waits_where_it_is_delivered_is_told_at_once() {
    let flaky = Flaky::default();
    let inbox = Inbox::new();
    let builder = Outbox::builder(flaky.clone()).options(options());
    let handler = slow(&inbox, Duration::from_millis(20));
    let outbox = builder.on(EVENT, handler).on("bad", fails).start().await.unwrap();
    for (name, expected) in
        [(EVENT, Awaited::Delivered), ("bad", Awaited::Dead { error: "no such customer".into() })]
    {
        let begun = Instant::now();
        let mut tx = flaky.table.transaction().unwrap();
        let staged = outbox.write(&mut tx, Event::json(name, &1).unwrap()).await.unwrap();
        tx.commit().unwrap();
        assert_eq!(staged.delivered(MINUTE).await.unwrap(), expected);
        assert!(begun.elapsed() < Duration::from_millis(45), "{:?}", begun.elapsed());
    }
    assert_eq!(flaky.looks(), 0);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn several_are_waited_for_together_and_answered_in_their_order() {
    let store = MemoryStore::new();
    let inbox = Inbox::new();
    let builder = Outbox::builder(store.clone()).options(options());
    let outbox = builder.on(EVENT, inbox.clone()).on("bad", fails).start().await.unwrap();
    let mut tx = store.transaction().unwrap();
    let events = [EVENT, "bad", EVENT].map(|name| Event::json(name, &1).unwrap());
    let staged = outbox.write_all(&mut tx, events).await.unwrap();
    tx.commit().unwrap();
    let ends = staged.delivered(MINUTE).await.unwrap();
    let dead = Awaited::Dead { error: "no such customer".into() };
    assert_eq!(ends, [Awaited::Delivered, dead, Awaited::Delivered]);
    outbox.close().await;
}

/// Another node delivers it, so it is looked for: after 50 ms, and once a second in the end.
#[tokio::test(start_paused = true)]
async fn what_another_node_delivers_is_found_by_looking() {
    let flaky = Flaky::default();
    let writer = Outbox::writer_only(flaky.table.clone());
    let outbox = Outbox::writer_only(flaky.clone());
    for (outcome, expected) in
        [(Outcome::Done, Awaited::Delivered), (dead("no"), Awaited::Dead { error: "no".into() })]
    {
        let id = commit(&writer, &event()).await;
        let begun = Instant::now();
        let waits = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.delivered(id, MINUTE).await }
        });
        tokio::time::sleep(10 * SECOND).await;
        end_all(&flaky.table, outcome).await;
        assert_eq!(waits.await.unwrap().unwrap(), expected);
        assert!(begun.elapsed() <= 11 * SECOND, "{:?}", begun.elapsed());
    }
    assert!((20..=32).contains(&flaky.looks()), "{}", flaky.looks());
}

/// A thousand who wait are served by one look at a time.
#[tokio::test(start_paused = true)]
async fn all_who_wait_in_a_process_share_their_looks() {
    let flaky = Flaky::default();
    let writer = Outbox::writer_only(flaky.table.clone());
    let mut ids = Vec::new();
    for _ in 0..1_000 {
        ids.push(commit(&writer, &event()).await);
    }
    let outbox = Outbox::writer_only(flaky.clone());
    let waits = tokio::spawn({
        let outbox = outbox.clone();
        async move { join_all(ids.iter().map(|id| outbox.delivered(*id, MINUTE))).await }
    });
    tokio::time::sleep(10 * SECOND).await;
    end_all(&flaky.table, Outcome::Done).await;
    assert!(waits.await.unwrap().into_iter().all(|end| end.unwrap() == Awaited::Delivered));
    assert!(flaky.looks() <= 20, "{} looks", flaky.looks());
}

/// The time that was asked for is kept, and the event is there all the same.
#[tokio::test(start_paused = true)]
async fn who_waits_too_short_is_told_so() {
    let store = MemoryStore::new();
    let outbox = Outbox::writer_only(store.clone());
    let id = commit(&outbox, &event()).await;
    for timeout in [Duration::ZERO, 3 * SECOND] {
        let begun = Instant::now();
        assert_eq!(outbox.delivered(id, timeout).await.unwrap(), Awaited::TimedOut);
        assert!(begun.elapsed() <= timeout + SECOND, "{:?}", begun.elapsed());
    }
    end_all(&store, Outcome::Done).await;
    assert_eq!(outbox.delivered(id, Duration::ZERO).await.unwrap(), Awaited::Delivered);
}

/// A row that is not there proves nothing by itself: it may be open, undone, or delivered long ago.
#[tokio::test(start_paused = true)]
async fn a_row_that_was_never_seen_is_not_delivered() {
    for store in [MemoryStore::new(), MemoryStore::new().deleting_when_done()] {
        let outbox = Outbox::writer_only(store.clone());
        let mut tx = store.transaction().unwrap();
        let staged = outbox.write(&mut tx, event()).await.unwrap();
        let id = staged.id();
        assert_eq!(outbox.delivered(id, SECOND).await.unwrap(), Awaited::NotSeen, "it is open");
        tx.rollback();
        assert_eq!(staged.delivered(SECOND).await.unwrap(), Awaited::NotSeen, "it is undone");
        assert_eq!(outbox.delivered(event().id(), SECOND).await.unwrap(), Awaited::NotSeen);
    }
}

/// Where delivered rows are deleted, one that is gone was delivered if it is proved that it was there: by a commit
/// of this process, by its settlement, or by a look.
#[tokio::test(start_paused = true)]
async fn a_row_that_is_gone_was_delivered_if_its_commit_was_proved() {
    let store = MemoryStore::new().deleting_when_done();
    let outbox = Outbox::writer_only(store.clone());
    let sent = outbox.send(event()).await.unwrap();
    let committed = commit(&outbox, &event()).await;
    end_all(&store, Outcome::Done).await;
    assert!(store.rows().is_empty());
    assert_eq!(outbox.delivered(sent, SECOND).await.unwrap(), Awaited::Delivered);
    assert_eq!(outbox.delivered(committed, SECOND).await.unwrap(), Awaited::Delivered);

    let stranger = Outbox::writer_only(store.clone());
    assert_eq!(stranger.delivered(sent, SECOND).await.unwrap(), Awaited::NotSeen);
    let seen = commit(&outbox, &event()).await;
    let waits = tokio::spawn(async move { stranger.delivered(seen, MINUTE).await });
    tokio::time::sleep(SECOND).await;
    end_all(&store, Outcome::Done).await;
    assert_eq!(waits.await.unwrap().unwrap(), Awaited::Delivered);

    let inbox = Inbox::new();
    let node = Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone());
    let node = node.start().await.unwrap();
    let foreign = commit(&outbox, &event()).await;
    inbox.has(1).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(node.delivered(foreign, SECOND).await.unwrap(), Awaited::Delivered, "settled here");
    node.close().await;
}

/// What an operator discarded is gone, and was not delivered.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_was_discarded_was_not_delivered() {
    let store = MemoryStore::new().deleting_when_done();
    let outbox = Outbox::writer_only(store.clone());
    let id = commit(&outbox, &event()).await;
    end_all(&store, dead("no such customer")).await;
    let note = AuditNote::new("ada", "sent by hand").unwrap();
    DeadLetters::new(Arc::new(store.clone())).discard(&[id], &note).await.unwrap();
    let dead = Awaited::Dead { error: "no such customer".into() };
    assert_eq!(outbox.delivered(id, SECOND).await.unwrap(), dead);
}

/// A database that is unavailable is asked again, and is no answer.
#[tokio::test(start_paused = true)]
async fn who_waits_outlasts_a_database_that_is_unavailable() {
    let flaky = Flaky::default();
    let outbox = Outbox::writer_only(flaky.clone());
    let id = commit(&Outbox::writer_only(flaky.table.clone()), &event()).await;
    flaky.set_down(true);
    assert_eq!(outbox.delivered(id, SECOND).await.unwrap(), Awaited::TimedOut);
    let late = CaughtUp::TimedOut { pending: Vec::new() };
    assert_eq!(outbox.caught_up(SECOND).await.unwrap(), late);
    let waits = tokio::spawn({
        let outbox = outbox.clone();
        async move { (outbox.delivered(id, MINUTE).await, outbox.caught_up(MINUTE).await) }
    });
    tokio::time::sleep(5 * SECOND).await;
    end_all(&flaky.table, Outcome::Done).await;
    flaky.set_down(false);
    let (delivered, caught_up) = waits.await.unwrap();
    assert_eq!((delivered.unwrap(), caught_up.unwrap()), (Awaited::Delivered, CaughtUp::Yes));
    flaky.table.close();
    let refused = outbox.delivered(id, MINUTE).await.unwrap_err();
    assert!(matches!(refused, AwaitError::Store(_)), "{refused:?}");
}

/// A future that is dropped, or not polled any more, leaves nothing behind and keeps nobody waiting.
#[tokio::test(start_paused = true)]
async fn whoever_stops_waiting_keeps_nobody_waiting() {
    let store = MemoryStore::new();
    let outbox = Outbox::writer_only(store.clone());
    let ids = [commit(&outbox, &event()).await, commit(&outbox, &event()).await];
    let mut left = Box::pin(outbox.delivered(ids[0], MINUTE));
    let mut barrier = Box::pin(outbox.caught_up(MINUTE));
    for _ in 0..3 {
        assert!(futures_util::poll!(&mut left).is_pending());
        assert!(futures_util::poll!(&mut barrier).is_pending());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    end_all(&store, Outcome::Done).await;
    assert_eq!(outbox.delivered(ids[1], MINUTE).await.unwrap(), Awaited::Delivered);
    assert_eq!(outbox.caught_up(MINUTE).await.unwrap(), CaughtUp::Yes);
    drop((left, barrier));
}

/// Everything that was committed before is over, and what comes later is not waited for.
/// Holds W12.
#[tokio::test(start_paused = true)]
async fn a_barrier_waits_for_what_was_committed_before_and_no_more() {
    let store = MemoryStore::new();
    let inbox = Inbox::new();
    let builder = Outbox::builder(store.clone()).options(OutboxOptions { workers: 4, ..options() });
    let outbox = builder.on(EVENT, slow(&inbox, SECOND)).start().await.unwrap();
    assert_eq!(outbox.caught_up(MINUTE).await.unwrap(), CaughtUp::Yes, "there is nothing");
    let mut before = Vec::new();
    for _ in 0..250 {
        before.push(commit(&outbox, &event()).await);
    }
    let barrier = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.caught_up(10 * MINUTE).await }
    });
    // So that there is always more to do.
    let flood = tokio::spawn({
        let outbox = outbox.clone();
        async move {
            loop {
                tokio::time::sleep(SECOND / 4).await;
                commit(&outbox, &event()).await;
            }
        }
    });
    assert_eq!(barrier.await.unwrap().unwrap(), CaughtUp::Yes);
    let received = inbox.ids();
    assert!(before.iter().all(|id| received.contains(id)));
    assert!(store.rows().iter().any(|row| row.status.is_pending()), "others are still pending");
    flood.abort();
    outbox.close().await;
}

/// A retry is not over; a dead letter is; an event that is delayed is not waited for.
#[tokio::test(start_paused = true)]
async fn a_barrier_knows_what_is_over() {
    let store = MemoryStore::new();
    let outbox = Outbox::writer_only(store.clone());
    let id = commit(&outbox, &event()).await;
    let late = CaughtUp::TimedOut { pending: vec![id] };
    assert_eq!(outbox.caught_up(SECOND).await.unwrap(), late);
    assert_eq!(outbox.caught_up(Duration::ZERO).await.unwrap(), late, "it looks once");
    let retry = Outcome::Retry { delay: MINUTE, attempts: 1, error: "no".into() };
    end_all(&store, retry).await;
    assert_eq!(outbox.caught_up(SECOND).await.unwrap(), late);
    tokio::time::advance(2 * MINUTE).await;
    end_all(&store, dead("no")).await;
    let delayed = Event::builder(EVENT).delay(MINUTE).json(&1).build().unwrap();
    commit(&outbox, &delayed).await;
    assert_eq!(outbox.caught_up(SECOND).await.unwrap(), CaughtUp::Yes);
    tokio::time::advance(2 * MINUTE).await;
    assert!(!outbox.caught_up(SECOND).await.unwrap().is_yes(), "now it is due");
    end_all(&store, Outcome::Done).await;
    store
        .purge(&Purge { cutoff: Cutoff::Age(Duration::ZERO), limit: 10, dead: true })
        .await
        .unwrap();
    assert_eq!(outbox.caught_up(SECOND).await.unwrap(), CaughtUp::Yes);
}

/// Many rows of others' are watched a hundred at a time, by few looks.
#[tokio::test(start_paused = true)]
async fn a_barrier_over_a_backlog_of_others_makes_few_looks() {
    let flaky = Flaky::default();
    super::fill(&flaky.table, EVENT, 1_000).await;
    let outbox = Outbox::writer_only(flaky.clone());
    let barrier = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.caught_up(MINUTE).await }
    });
    let ids: Vec<EventId> = flaky.table.rows().iter().map(|row| row.event.id()).collect();
    for _ in 0..10 {
        tokio::time::sleep(SECOND).await;
        let claimed = flaky.table.claim(&Claim::new("elsewhere", 100, SECOND)).await.unwrap().rows;
        let end = |held| Settlement { held, outcome: Outcome::Done };
        let batch: Vec<_> = claimed.iter().map(|row| end(row.held())).collect();
        flaky.table.settle(&batch).await.unwrap();
    }
    assert_eq!(barrier.await.unwrap().unwrap(), CaughtUp::Yes);
    assert!(flaky.looks() <= 80, "{} looks for {} rows", flaky.looks(), ids.len());
}

/// Retries until it is delivered: the answer is what became of it in the end.
#[tokio::test(start_paused = true)]
async fn who_waits_is_not_told_of_failures_that_are_tried_again() {
    let store = MemoryStore::new();
    let tries = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let handler = {
        let tries = tries.clone();
        move |_: Delivery| {
            let first = tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2;
            async move { if first { Err("not yet".into()) } else { Ok(()) } }
        }
    };
    let retry = RetryOptions { base: SECOND, ..RetryOptions::default() };
    let builder = Outbox::builder(store.clone()).options(OutboxOptions { retry, ..options() });
    let outbox = builder.on(EVENT, handler).start().await.unwrap();
    let id = outbox.send(event()).await.unwrap();
    assert_eq!(outbox.delivered(id, 10 * MINUTE).await.unwrap(), Awaited::Delivered);
    assert_eq!(tries.load(std::sync::atomic::Ordering::SeqCst), 3);
    outbox.close().await;
}
