use sendoff_core::EventId;
use sendoff_engine::store::{InspectStore, Outcome, RetainStore};

use crate::conformance::probe::hold_of;
use crate::conformance::{Probe, StoreHarness};

/// Only what was done long enough ago is forgotten; what is owed or dead never is.
pub async fn purge_deletes_only_old_done_rows<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.commit_due(5).await;
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    assert!(probe.settle(held[0], Outcome::Done).await);
    assert!(probe.settle(held[1], Outcome::Dead { attempts: 1, error: "no".to_owned() }).await);
    let retry = Outcome::Retry { delay: probe.ticks(0), attempts: 1, error: "no".to_owned() };
    assert!(probe.settle(held[2], retry).await);
    probe.pass(5).await;
    assert!(probe.settle(held[3], Outcome::Done).await);

    let purged = probe.store().purge(probe.ticks(4), 100).await.expect("purge");
    let keeps = probe.store().keeps().is_some();
    assert_eq!(purged, u64::from(keeps));
    assert_eq!(left(probe, &ids).await, [false, true, true, keeps, true]);
    let counts = probe.store().counts().await.expect("counts");
    assert_eq!((counts.new, counts.retry, counts.dead), (1, 1, 1));
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
    if probe.store().keeps().is_none() {
        assert_eq!(probe.store().purge(probe.ticks(0), 2).await.expect("purge"), 0);
        return;
    }
    assert_eq!(probe.store().purge(probe.ticks(0), 0).await.expect("purge"), 0);
    assert_eq!(probe.store().purge(probe.ticks(0), 2).await.expect("purge"), 2);
    assert_eq!(left(probe, &ids).await.iter().filter(|&&left| left).count(), 1);
    assert_eq!(probe.store().purge(probe.ticks(0), 2).await.expect("purge"), 1);
    assert_eq!(probe.store().purge(probe.ticks(0), 2).await.expect("purge"), 0);
}

async fn left<H: StoreHarness>(probe: &Probe<H>, ids: &[EventId]) -> Vec<bool> {
    let mut left = Vec::new();
    for id in ids {
        left.push(probe.find(*id).await.is_some());
    }
    left
}
