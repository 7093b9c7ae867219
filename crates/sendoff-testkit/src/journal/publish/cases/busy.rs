use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_engine::journal::publish::PublishStore;

use super::{append, builder, cursor, mortal, node, node_with, numbers, pair, stored};
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
