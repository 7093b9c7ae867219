//! Who leads what, where the list of nodes is wrong about who works.

use std::collections::BTreeSet;
use std::time::Duration;

use sendoff_core::journal::publish::PairId;
use sendoff_engine::journal::MemoryJournal;
use sendoff_engine::journal::publish::{
    PublishOptions, PublishStore, Publishing, PublishingBuilder,
};
use sendoff_engine::lead::{Membership, NodeCard};
use sendoff_testkit::journal::{Latch, Rounds};
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::{Log, MINUTE, append, everything, journal};
use crate::SECOND;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A node with a pair for each publisher.
async fn node(journal: &Log, latches: &[Latch]) -> (Publishing, std::sync::Arc<Rounds>) {
    let rounds = Rounds::new();
    let add = |builder: PublishingBuilder<MemoryJournal>, latch: &Latch| {
        builder.pair(&everything(), latch.publisher())
    };
    let builder = Publishing::builder(journal).metrics(rounds.clone());
    let node = latches.iter().fold(builder, add).start().await.unwrap();
    within(MINUTE, "it leads all", async || node.statistics().leading == NAMES.len()).await;
    (node, rounds)
}

/// Joins as a node that has the same publishers, and never takes anything.
async fn joins(journal: &Log, owner: &str) -> Box<dyn Membership> {
    let key = |name| PairId::new("everything", name).unwrap().key();
    let PublishOptions { renew, lease, .. } = PublishOptions::default();
    let knows: BTreeSet<_> = NAMES.map(key).into();
    journal.store().join(&NodeCard { owner: owner.into(), knows, renew, lease }).await.unwrap()
}

fn gave(rounds: &Rounds) -> u64 {
    rounds.counters.values().pairs.values().map(|pair| pair.released).sum()
}

/// How long it takes until everybody has published all there is.
async fn published(journal: &Log, latches: &[Latch], count: usize) -> Duration {
    let began = Instant::now();
    append(journal, 1).await;
    for latch in latches {
        latch.wait_for(count).await;
    }
    began.elapsed()
}

/// Holds J12: its lease is good, and it takes nothing: what is for it is another's within a few rounds,
/// and stays there.
#[tokio::test(start_paused = true)]
async fn a_pair_does_not_wait_for_a_node_that_does_not_take_it() {
    let (journal, latches) = (journal(), NAMES.map(Latch::new));
    let (node, rounds) = node(&journal, &latches).await;
    let mut idle = joins(&journal, "idle").await;
    let beats = tokio::spawn(async move {
        loop {
            sleep(SECOND / 2).await;
            idle.beat().await.unwrap();
        }
    });
    within(MINUTE, "it has its share", async || gave(&rounds) == 2).await;
    let waited = published(&journal, &latches, 1).await;
    assert!(waited <= 3 * SECOND, "{waited:?}");
    // For a lease nothing is given to it again.
    for count in 2..6 {
        let waited = published(&journal, &latches, count).await;
        assert!(waited <= SECOND, "{count}: {waited:?}");
        sleep(SECOND).await;
    }
    assert_eq!(gave(&rounds), 2);
    beats.abort();
    node.close().await;
}

/// Holds J12: a process that crashes at each start is in the list of nodes for a while each time.
#[tokio::test(start_paused = true)]
async fn nothing_is_given_to_those_that_come_and_die() {
    let (journal, latches) = (journal(), NAMES.map(Latch::new));
    let (node, rounds) = node(&journal, &latches).await;
    sleep(MINUTE).await;
    for count in 1..100 {
        let mut ghost = joins(&journal, &format!("ghost {count}")).await;
        sleep(SECOND / 2).await;
        ghost.beat().await.unwrap();
        drop(ghost);
        let waited = published(&journal, &latches, count).await;
        assert!(waited <= SECOND, "{count}: {waited:?}");
    }
    assert_eq!((gave(&rounds), node.statistics().leading), (0, NAMES.len()));
    node.close().await;
}
