use std::time::Duration;

use sendoff_core::EventId;
use sendoff_engine::store::{Counts, InspectStore, Outcome, RetainStore};

use crate::conformance::probe::{HOLD, hold_of};
use crate::conformance::{Probe, StoreHarness};

/// Counts follow the rows through every status. Holds S1.
pub async fn counts_tell_the_rows_of_each_status<H: StoreHarness>(probe: &Probe<H>) {
    let counts = || async { probe.store().counts().await.expect("counts") };
    assert_eq!(counts().await, Counts::default());
    probe.commit_due(5).await;
    assert_eq!(counts().await, Counts { new: 5, ..Counts::default() });
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    let error = || "no".to_owned();
    let retry = Outcome::Retry { delay: probe.ticks(1), attempts: 1, error: error() };
    assert!(probe.settle(held[0], Outcome::Done).await);
    assert!(probe.settle(held[1], retry).await);
    assert!(probe.settle(held[2], Outcome::Dead { attempts: 1, error: error() }).await);
    assert!(probe.settle(held[3], Outcome::Released).await);
    let done = u64::from(probe.store().keeps().is_some());
    assert_eq!(counts().await, Counts { new: 2, done, retry: 1, dead: 1 });
}

/// The lag is that of the oldest row that is due; held and delayed ones are not.
pub async fn the_oldest_lag_counts_from_the_due_time<H: StoreHarness>(probe: &Probe<H>) {
    let lag = || async { probe.store().oldest_lag().await.expect("oldest lag") };
    assert_eq!(lag().await, Duration::ZERO);
    probe.commit_held("writer", HOLD * 2).await;
    assert_eq!(lag().await, Duration::ZERO, "held is not due");

    let (_, written) = probe.timed(probe.commit_due(1)).await;
    probe.pass(3).await;
    probe.commit_due(1).await;
    let (lag_now, asked) = probe.timed(lag()).await;
    assert!(lag_now >= probe.ticks(3), "{lag_now:?}");
    // What it says and when it was asked lead back to the write.
    written.assert_contains_start(asked, lag_now);

    probe.claim_all("node").await;
    assert_eq!(lag().await, Duration::ZERO, "all are held");
}

/// An id that was never written is not found.
pub async fn an_unknown_id_is_not_found<H: StoreHarness>(probe: &Probe<H>) {
    probe.commit_due(1).await;
    assert!(probe.find(EventId::generate()).await.is_none());
}
