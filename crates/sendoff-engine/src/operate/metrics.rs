use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::handover::LaneDepths;

/// What the engine counts. Every method does nothing unless overridden; the default costs nothing.
pub trait Metrics: Send + Sync + 'static {
    /// Whether to take measurements that cost a query.
    fn enabled(&self) -> bool {
        true
    }

    /// An event entered the hot lane.
    fn hot_enqueued(&self) {}

    /// The hot lane was full; the event is left to the poller.
    fn hot_dropped(&self) {}

    /// An event entered the cold lane.
    fn cold_enqueued(&self) {}

    /// A handler succeeded.
    fn succeeded(&self) {}

    /// An attempt failed.
    fn failed(&self) {}

    /// An event became DEAD.
    fn dead(&self) {}

    /// So many settlements named a hold that was no longer theirs.
    fn fenced(&self, count: u64) {
        let _ = count;
    }

    /// How full the lanes are.
    fn lane_depths(&self, depths: LaneDepths) {
        let _ = depths;
    }

    /// How long ago the oldest pending event became due.
    fn oldest_lag(&self, lag: Duration) {
        let _ = lag;
    }
}

/// No metrics: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {
    fn enabled(&self) -> bool {
        false
    }
}

/// Metrics kept in memory, to be read at any time.
#[derive(Debug, Default)]
pub struct Counters {
    hot_enqueued: AtomicU64,
    hot_dropped: AtomicU64,
    cold_enqueued: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    dead: AtomicU64,
    fenced: AtomicU64,
    hot_depth: AtomicU64,
    cold_depth: AtomicU64,
    oldest_lag_micros: AtomicU64,
}

/// [`Counters`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what the method of Metrics with its name reports")]
pub struct CounterValues {
    pub hot_enqueued: u64,
    pub hot_dropped: u64,
    pub cold_enqueued: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub dead: u64,
    pub fenced: u64,
    pub hot_depth: u64,
    pub cold_depth: u64,
    pub oldest_lag: Duration,
}

impl Counters {
    /// The values now.
    pub fn values(&self) -> CounterValues {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CounterValues {
            hot_enqueued: read(&self.hot_enqueued),
            hot_dropped: read(&self.hot_dropped),
            cold_enqueued: read(&self.cold_enqueued),
            succeeded: read(&self.succeeded),
            failed: read(&self.failed),
            dead: read(&self.dead),
            fenced: read(&self.fenced),
            hot_depth: read(&self.hot_depth),
            cold_depth: read(&self.cold_depth),
            oldest_lag: Duration::from_micros(read(&self.oldest_lag_micros)),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Metrics for Counters {
    fn hot_enqueued(&self) {
        add(&self.hot_enqueued, 1);
    }

    fn hot_dropped(&self) {
        add(&self.hot_dropped, 1);
    }

    fn cold_enqueued(&self) {
        add(&self.cold_enqueued, 1);
    }

    fn succeeded(&self) {
        add(&self.succeeded, 1);
    }

    fn failed(&self) {
        add(&self.failed, 1);
    }

    fn dead(&self) {
        add(&self.dead, 1);
    }

    fn fenced(&self, count: u64) {
        add(&self.fenced, count);
    }

    fn lane_depths(&self, depths: LaneDepths) {
        self.hot_depth.store(depths.hot as u64, Ordering::Relaxed);
        self.cold_depth.store(depths.cold as u64, Ordering::Relaxed);
    }

    fn oldest_lag(&self, lag: Duration) {
        let micros = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        self.oldest_lag_micros.store(micros, Ordering::Relaxed);
    }
}
