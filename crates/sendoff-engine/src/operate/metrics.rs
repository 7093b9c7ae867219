use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::error;

use crate::dispatch::shielded;
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

    /// So many rows that nobody here wants could not be released, because too many waited for it;
    /// others see them when their holds end.
    fn unreleased(&self, count: u64) {
        let _ = count;
    }

    /// How full the lanes are.
    fn lane_depths(&self, depths: LaneDepths) {
        let _ = depths;
    }

    /// How long ago the oldest pending event became due. What is held is not due; see
    /// [`oldest_in_flight`](Self::oldest_in_flight).
    fn oldest_lag(&self, lag: Duration) {
        let _ = lag;
    }

    /// How long the oldest event in this node's hands has been there, waiting or in work.
    fn oldest_in_flight(&self, age: Duration) {
        let _ = age;
    }
}

/// Metrics are somebody else's code, and a panic in them must not stop a stage of ours.
pub(crate) struct Shielded(pub(crate) Arc<dyn Metrics>);

impl Shielded {
    fn call<T: Default>(&self, call: impl FnOnce(&dyn Metrics) -> T) -> T {
        shielded(|| call(&*self.0)).unwrap_or_else(|panic| {
            error!(error = panic.report(), "a metrics method panicked");
            T::default()
        })
    }
}

impl Metrics for Shielded {
    fn enabled(&self) -> bool {
        self.call(|metrics| metrics.enabled())
    }

    fn hot_enqueued(&self) {
        self.call(|metrics| metrics.hot_enqueued());
    }

    fn hot_dropped(&self) {
        self.call(|metrics| metrics.hot_dropped());
    }

    fn cold_enqueued(&self) {
        self.call(|metrics| metrics.cold_enqueued());
    }

    fn succeeded(&self) {
        self.call(|metrics| metrics.succeeded());
    }

    fn failed(&self) {
        self.call(|metrics| metrics.failed());
    }

    fn dead(&self) {
        self.call(|metrics| metrics.dead());
    }

    fn fenced(&self, count: u64) {
        self.call(|metrics| metrics.fenced(count));
    }

    fn unreleased(&self, count: u64) {
        self.call(|metrics| metrics.unreleased(count));
    }

    fn lane_depths(&self, depths: LaneDepths) {
        self.call(|metrics| metrics.lane_depths(depths));
    }

    fn oldest_lag(&self, lag: Duration) {
        self.call(|metrics| metrics.oldest_lag(lag));
    }

    fn oldest_in_flight(&self, age: Duration) {
        self.call(|metrics| metrics.oldest_in_flight(age));
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
    unreleased: AtomicU64,
    hot_depth: AtomicU64,
    cold_depth: AtomicU64,
    oldest_lag_micros: AtomicU64,
    oldest_in_flight_micros: AtomicU64,
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
    pub unreleased: u64,
    pub hot_depth: u64,
    pub cold_depth: u64,
    pub oldest_lag: Duration,
    pub oldest_in_flight: Duration,
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
            unreleased: read(&self.unreleased),
            hot_depth: read(&self.hot_depth),
            cold_depth: read(&self.cold_depth),
            oldest_lag: Duration::from_micros(read(&self.oldest_lag_micros)),
            oldest_in_flight: Duration::from_micros(read(&self.oldest_in_flight_micros)),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn set(gauge: &AtomicU64, time: Duration) {
    gauge.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
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

    fn unreleased(&self, count: u64) {
        add(&self.unreleased, count);
    }

    fn lane_depths(&self, depths: LaneDepths) {
        self.hot_depth.store(depths.hot as u64, Ordering::Relaxed);
        self.cold_depth.store(depths.cold as u64, Ordering::Relaxed);
    }

    fn oldest_lag(&self, lag: Duration) {
        set(&self.oldest_lag_micros, lag);
    }

    fn oldest_in_flight(&self, age: Duration) {
        set(&self.oldest_in_flight_micros, age);
    }
}
