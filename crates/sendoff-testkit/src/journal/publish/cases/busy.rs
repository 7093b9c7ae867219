//! Cursors and nodes that somebody has locked.

use std::time::{Duration, Instant};

use sendoff_core::journal::Position;
use sendoff_engine::journal::publish::{PublishOptions, PublishStore};

use super::{append, builder, cursor, mortal, node, node_with, numbers, pair, quick, stored};
use crate::journal::{Latch, PublishHarness};

/// Holds I11 and J12: a cursor that an operator's open transaction has locked holds up its own pair at
/// most: others are published and stored, nodes start and take what is free, and the pair goes on when
/// the lock is gone.
pub async fn a_cursor_that_somebody_has_locked_holds_no_other_up(harness: impl PublishHarness) {
    let journal = harness.journal();
    let (held, free) = (Latch::new("held"), Latch::new("free"));
    let first = node_with(builder(journal).options(mortal()), &[&held, &free]).await;
    append(journal, 10).await;
    stored(journal, "held", 10).await;
    stored(journal, "free", 10).await;
    let Some(lock) = harness.lock_cursor(&pair("held")).await else { return };
    append(journal, 10).await;
    stored(journal, "free", 20).await;
    held.wait_for(20).await;
    append(journal, 10).await;
    stored(journal, "free", 30).await;
    let elsewhere = harness.elsewhere().await;
    let second = node_with(builder(&elsewhere).options(mortal()), &[&held, &free]).await;
    drop(first);
    append(journal, 10).await;
    stored(journal, "free", 40).await;
    assert_eq!(free.positions(), numbers(1..=40));
    assert_eq!(cursor(journal, "held").await.position.get(), 10);
    lock.release().await;
    stored(journal, "held", 40).await;
    second.close().await;
}

/// Holds I11: closing does not wait for a cursor that somebody has locked, and gives up the others.
pub async fn closing_does_not_wait_for_a_cursor_that_somebody_has_locked(
    harness: impl PublishHarness,
) {
    let journal = harness.journal();
    let (held, free) = (Latch::new("held"), Latch::new("free"));
    let first = node(journal, &[&held, &free]).await;
    append(journal, 10).await;
    stored(journal, "held", 10).await;
    stored(journal, "free", 10).await;
    let Some(lock) = harness.lock_cursor(&pair("held")).await else { return };
    append(journal, 10).await;
    held.wait_for(20).await;
    // Half of what it may take to drain.
    tokio::time::timeout(Duration::from_secs(30), first.close()).await.unwrap();
    let given = cursor(journal, "free").await;
    assert_eq!((given.leader, given.position.get()), (None, 20));
    let both = [(pair("held"), Position::START), (pair("new"), Position::START)];
    journal.store().register(&both).await.unwrap();
    let second = node(journal, &[&held, &free]).await;
    lock.release().await;
    stored(journal, "held", 20).await;
    assert_eq!(free.positions(), numbers(1..=20));
    second.close().await;
}

/// Holds I11: while somebody has locked the rows of all nodes, those that are there go on, for longer than
/// any lease, and nobody takes their place.
pub async fn nodes_that_somebody_has_locked_go_on(harness: impl PublishHarness) {
    let journal = harness.journal();
    let latch = Latch::new("all");
    // Not so short that a slow machine ends it.
    let options = PublishOptions { lease: Duration::from_secs(3), ..quick() };
    let first = node_with(builder(journal).options(options.clone()), &[&latch]).await;
    append(journal, 1).await;
    stored(journal, "all", 1).await;
    let elsewhere = harness.elsewhere().await;
    let second = node_with(builder(&elsewhere).options(options.clone()), &[&latch]).await;
    let Some(lock) = harness.lock_nodes().await else { return };
    let (began, mut last) = (Instant::now(), 1);
    while began.elapsed() < options.lease * 3 / 2 {
        append(journal, 1).await;
        last += 1;
        stored(journal, "all", last).await;
    }
    assert_eq!(latch.positions(), numbers(1..=last));
    lock.release().await;
    append(journal, 1).await;
    stored(journal, "all", last + 1).await;
    first.close().await;
    append(journal, 1).await;
    stored(journal, "all", last + 2).await;
    second.close().await;
}
