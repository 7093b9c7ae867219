//! What is undone with a savepoint was never written.

use sendoff_engine::capture::CommitError;

use crate::capture::shop::{Shop, event, events, ids, keyed};
use crate::capture::{CaptureHarness, Database, Face};

/// Holds W3: one within another, and the application's own changes with them.
pub async fn what_is_under_a_rolled_back_savepoint_is_not_delivered<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::open(harness, face).await;
    let orders: Vec<_> = (0..5).map(|id| shop.order(id)).collect();
    let kept = events(3);
    let mut tx = shop.begin().await;
    tx.write(&kept[..1]).await.unwrap();

    let mut undone = tx.savepoint().await.unwrap();
    undone.write(&events(2)).await.unwrap();
    undone.sql(&orders[1]).await.unwrap();
    // An error under a savepoint is undone with it.
    assert!(!H::Database::ERRORS_END_TRANSACTIONS || undone.sql("select 1 / 0").await.is_err());
    undone.rollback().await.unwrap();

    let mut released = tx.savepoint().await.unwrap();
    released.write(&kept[1..2]).await.unwrap();
    released.sql(&orders[2]).await.unwrap();
    let mut innermost = released.savepoint().await.unwrap();
    innermost.write(&[event()]).await.unwrap();
    innermost.sql(&orders[3]).await.unwrap();
    innermost.rollback().await.unwrap();
    released.sql(&orders[4]).await.unwrap();
    released.commit().await.unwrap();

    tx.write(&kept[2..]).await.unwrap();
    tx.commit().await.unwrap();
    shop.has_orders(&[2, 4]).await;
    shop.delivered(&ids(&kept)).await;
}

/// Holds O1: events of one transaction have numbers of their own, also around a savepoint that was rolled back,
/// and what is missing of a key keeps none of it waiting.
pub async fn events_of_a_key_around_a_savepoint_are_delivered_in_order<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::open(harness, face).await;
    let events: Vec<_> = (0..6).map(|_| keyed("a")).collect();
    let mut tx = shop.begin().await;
    tx.write(&events[..1]).await.unwrap();
    let mut undone = tx.savepoint().await.unwrap();
    undone.write(&events[1..3]).await.unwrap();
    undone.rollback().await.unwrap();
    let mut released = tx.savepoint().await.unwrap();
    released.write(&events[3..5]).await.unwrap();
    released.commit().await.unwrap();
    tx.write(&events[5..]).await.unwrap();
    tx.commit().await.unwrap();
    let mut left = ids(&events);
    left.drain(1..3);
    assert_eq!(shop.delivered(&left).await, left, "one after the other");
}

/// Where a driver cannot undo a dropped savepoint before anything else is sent, nothing commits.
pub async fn a_dropped_savepoint_keeps_nothing<H: CaptureHarness>(harness: &H, face: Face) {
    let mut shop = Shop::open(harness, face).await;
    let (kept, order) = (event(), shop.order(1));
    let mut tx = shop.begin().await;
    tx.write(std::slice::from_ref(&kept)).await.unwrap();
    {
        let mut dropped = tx.savepoint().await.unwrap();
        dropped.write(&[event()]).await.unwrap();
        dropped.sql(&order).await.unwrap();
    }
    let ended = tx.commit().await;
    shop.has_orders(&[]).await;
    if H::DROPPED_SAVEPOINTS_END_TRANSACTIONS {
        assert!(matches!(ended, Err(CommitError::RolledBack(_))), "{ended:?}");
        shop.delivered(&[]).await;
    } else {
        ended.unwrap();
        shop.delivered(&[kept.id()]).await;
    }
}
