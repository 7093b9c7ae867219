//! Deleting rows that are over, and no others.

use std::time::Duration;

use sendoff_core::{EventId, Timestamp};
use sendoff_engine::store::{Cutoff, InspectStore, Outcome, Purge, Purged, RetainStore};

use crate::conformance::probe::hold_of;
use crate::conformance::{Probe, StoreHarness};

impl<H: StoreHarness> Probe<H> {
    async fn purge(&self, purge: &Purge) -> Purged {
        let foretold = self.store().purgeable(purge).await.expect("purgeable");
        let purged = self.store().purge(purge).await.expect("purge");
        assert_eq!(foretold, purged, "what would be purged is");
        purged
    }
}

/// Only what was done long enough ago is forgotten; what is owed or dead never is.
pub async fn purge_deletes_only_old_done_rows<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.commit_due(5).await;
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    assert!(probe.settle(held[0], Outcome::Done).await);
    assert!(probe.settle(held[1], Outcome::dead(1, "no")).await);
    let retry = Outcome::Retry { delay: probe.ticks(0), attempts: 1, error: "no".to_owned() };
    assert!(probe.settle(held[2], retry).await);
    probe.pass(1).await;
    // A moment, not an age: on a busy machine no age is certain to lie between the two.
    let between = Cutoff::Before(probe.harness().now().await);
    assert!(probe.settle(held[3], Outcome::Done).await);

    let young = Cutoff::Age(Duration::from_secs(3_600));
    assert_eq!(probe.purge(&delivered(young, 100)).await, Purged::default());
    let purged = probe.purge(&delivered(between, 100)).await;
    let keeps = probe.store().keeps().is_some();
    assert_eq!(purged, Purged { done: u64::from(keeps), dead: 0 });
    assert_eq!(left(probe, &ids).await, [false, true, true, keeps, true]);
    let counts = probe.store().counts().await.expect("counts");
    assert_eq!((counts.new, counts.retry, counts.dead), (1, 1, 1));

    probe.pass(2).await;
    let old = Cutoff::Age(probe.ticks(1));
    let purged = probe.purge(&delivered(old, 100)).await;
    assert_eq!(purged, Purged { done: u64::from(keeps), dead: 0 });
    assert_eq!(left(probe, &ids).await, [false, true, true, false, true]);
}

/// Dead rows go when asked for, by the time they died, and what is owed still does not. Holds L7.
pub async fn purge_takes_old_dead_rows_when_asked<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.commit_due(5).await;
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    let dead = || Outcome::dead(1, "no");
    assert!(probe.settle(held[0], dead()).await);
    assert!(probe.settle(held[1], Outcome::Done).await);
    assert!(probe.settle(held[2], dead()).await);
    probe.pass(1).await;
    let between = Cutoff::Before(probe.harness().now().await);
    assert!(probe.settle(held[3], dead()).await);
    assert!(probe.row(ids[3]).await.done_at.is_some(), "when it ended is known");

    let keeps = u64::from(probe.store().keeps().is_some());
    let purge = |limit| Purge { dead: true, ..delivered(between, limit) };
    let first = probe.purge(&purge(1)).await;
    assert_eq!(first.total(), 1, "the limit is for both kinds together");
    let rest = probe.purge(&purge(100)).await;
    assert_eq!((first.done + rest.done, first.dead + rest.dead), (keeps, 2));
    assert_eq!(left(probe, &ids).await, [false, false, false, true, true]);
    assert_eq!(probe.purge(&purge(100)).await, Purged::default());
}

/// What ended before a moment is forgotten, what ended at it or later is not, and a moment before or after
/// every calendar is one too. Holds L7.
pub async fn purge_deletes_what_ended_before_a_moment<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.commit_due(4).await;
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    for held in &held[..3] {
        let outcome = Outcome::dead(1, "no");
        assert!(probe.settle(*held, outcome).await);
        probe.pass(1).await;
    }
    let ended = probe.row(ids[1]).await.done_at.expect("when it ended is known");
    let before = |moment| Purge { cutoff: Cutoff::Before(moment), limit: 100, dead: true };
    let earliest = Timestamp::from_micros(i64::MIN);
    assert_eq!(probe.purge(&before(earliest)).await, Purged::default());
    assert_eq!(probe.purge(&before(ended)).await, Purged { done: 0, dead: 1 });
    assert_eq!(left(probe, &ids).await, [false, true, true, true]);
    let latest = Timestamp::from_micros(i64::MAX);
    assert_eq!(probe.purge(&before(latest)).await, Purged { done: 0, dead: 2 });
    assert_eq!(left(probe, &ids).await, [false, false, false, true], "what is owed stays");
}

/// A purge deletes no more than its limit, and the oldest first.
pub async fn purge_stops_at_its_limit<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.commit_due(3).await;
    let mut held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    // Done in the opposite order of their commits.
    held.reverse();
    for held in held {
        assert!(probe.settle(held, Outcome::Done).await);
        probe.pass(1).await;
    }
    let purge =
        async |limit| probe.purge(&delivered(Cutoff::Age(Duration::ZERO), limit)).await.done;
    if probe.store().keeps().is_none() {
        assert_eq!(purge(2).await, 0);
        return;
    }
    assert_eq!(purge(0).await, 0);
    assert_eq!(purge(2).await, 2);
    assert_eq!(left(probe, &ids).await.iter().filter(|&&left| left).count(), 1);
    assert_eq!(purge(2).await, 1);
    assert_eq!(purge(2).await, 0);
}

fn delivered(cutoff: Cutoff, limit: usize) -> Purge {
    Purge { cutoff, limit, dead: false }
}

async fn left<H: StoreHarness>(probe: &Probe<H>, ids: &[EventId]) -> Vec<bool> {
    let mut left = Vec::new();
    for id in ids {
        left.push(probe.find(*id).await.is_some());
    }
    left
}
