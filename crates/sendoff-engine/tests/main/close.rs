//! Closing in order: what is drained, what is released, what is settled.

use std::time::Duration;

use sendoff_core::{Delivery, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::{Closed, NodeOptions, Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;

use super::{EVENT, SECOND, commit, event, options, row};

async fn slow(_: Delivery) -> sendoff_engine::HandlerResult {
    tokio::time::sleep(2 * SECOND).await;
    Ok(())
}

/// Holds D10.
#[tokio::test(start_paused = true)]
async fn closing_drains_the_lanes_and_settles_everything() {
    let options = OutboxOptions { workers: 2, ..options() };
    let outbox = Outbox::builder(MemoryStore::new()).options(options).on(EVENT, slow).start().await;
    let outbox = outbox.unwrap();
    let ids = [commit(&outbox, &event()).await, commit(&outbox, &event()).await];
    assert_eq!(outbox.close().await, Closed::default());
    assert!(ids.iter().all(|&id| row(outbox.store(), id).status == Status::Done));
    assert_eq!(outbox.close().await, Closed::default(), "a second close waits for nothing");
}

/// Holds D10: what is left stays claimable at once, and no attempt is counted.
#[tokio::test(start_paused = true)]
async fn what_the_drain_does_not_reach_is_released_at_once() {
    let options = OutboxOptions {
        workers: 1,
        node: NodeOptions { drain_timeout: 3 * SECOND, ..NodeOptions::default() },
        ..options()
    };
    let outbox = Outbox::builder(MemoryStore::new()).options(options).on(EVENT, slow).start().await;
    let outbox = outbox.unwrap();
    for _ in 0..10 {
        commit(&outbox, &event()).await;
    }
    let begun = tokio::time::Instant::now();
    assert!(outbox.close().await.cut_off);
    assert!(begun.elapsed() < 4 * SECOND);
    let rows = outbox.store().rows();
    let done = rows.iter().filter(|row| row.status == Status::Done).count();
    assert_eq!(done, 1);
    let left = rows.iter().filter(|row| row.status == Status::New);
    assert!(left.clone().all(|row| row.locked_by.is_none() && row.attempts == 0));
    assert_eq!(left.count(), 9);

    // Another node takes them now, not after their holds would have run out.
    let inbox = Inbox::new();
    let next =
        Outbox::builder(outbox.store().clone()).on(EVENT, inbox.clone()).start().await.unwrap();
    let begun = tokio::time::Instant::now();
    inbox.has(9).await;
    assert!(begun.elapsed() < SECOND);
    assert!(inbox.received().iter().all(|delivery| delivery.attempt == 1));
    next.close().await;
}

/// Holds D9: after a close nothing is taken in, and a write still succeeds.
#[tokio::test(start_paused = true)]
async fn a_write_after_the_close_is_left_to_others() {
    let inbox = Inbox::new();
    let outbox =
        Outbox::builder(MemoryStore::new()).on(EVENT, inbox.clone()).start().await.unwrap();
    outbox.close().await;
    let id = commit(&outbox, &event()).await;
    let row = row(outbox.store(), id);
    assert_eq!((row.status, row.locked_by), (Status::New, None));
    assert!(inbox.received().is_empty());
    assert!(outbox.poll().await.unwrap(), "a closed outbox has nothing to poll for");
}

/// The last handle dropped without a close is like a crash: nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_dropped_outbox_stops_and_its_rows_come_back_by_themselves() {
    let store = MemoryStore::new();
    let outbox =
        Outbox::builder(store.clone()).options(options()).on(EVENT, slow).start().await.unwrap();
    let id = commit(&outbox, &event()).await;
    tokio::task::yield_now().await;
    drop(outbox);
    let inbox = Inbox::new();
    let next =
        Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone()).start().await;
    let next = next.unwrap();
    let begun = tokio::time::Instant::now();
    inbox.has(1).await;
    let took = begun.elapsed();
    let grace = OutboxOptions::default().hot_grace;
    assert!(took >= grace - Duration::from_millis(20) && took < grace + 2 * SECOND, "{took:?}");
    next.close().await;
    assert_eq!((row(&store, id).status, row(&store, id).attempts), (Status::Done, 1));
}

/// Holds D10: also for what was released and still waits for the proof of its commit.
#[tokio::test(start_paused = true)]
async fn a_receipt_released_right_before_the_close_is_delivered_or_released() {
    let outbox = Outbox::builder(MemoryStore::new()).on(EVENT, slow).start().await.unwrap();
    let mut tx = outbox.store().transaction().unwrap();
    let staged = outbox.write(&mut tx, event()).await.unwrap();
    let id = staged.id();
    tx.commit().unwrap();
    staged.release();
    outbox.close().await;
    let row = row(outbox.store(), id);
    assert_eq!((row.status, row.locked_by, row.attempts), (Status::New, None, 0));
}

/// Holds D10: whoever stops waiting for a close does not make the next one lie.
#[tokio::test(start_paused = true)]
async fn a_close_that_is_cancelled_is_gone_on_with_by_the_next() {
    for patience in [0, 1, 999, 2_999, 3_001, 3_500] {
        let options = OutboxOptions {
            workers: 1,
            node: NodeOptions { drain_timeout: 3 * SECOND, ..NodeOptions::default() },
            ..options()
        };
        let hang = async |_: Delivery| std::future::pending().await;
        let outbox =
            Outbox::builder(MemoryStore::new()).options(options).on(EVENT, hang).start().await;
        let outbox = outbox.unwrap();
        for _ in 0..10 {
            commit(&outbox, &event()).await;
        }
        tokio::task::yield_now().await;
        let patience = Duration::from_millis(patience);
        let first = tokio::time::timeout(patience, outbox.close()).await;
        let held = || outbox.store().rows().iter().filter(|row| row.locked_by.is_some()).count();
        assert!(first.is_ok() || held() > 0, "nothing is released before the drain is over");
        let closed = outbox.close().await;
        assert!(closed.cut_off && !closed.unsettled, "{patience:?}: {closed:?}");
        assert_eq!(held(), 0, "{patience:?}");
        assert_eq!(outbox.close().await, closed);
    }
}
