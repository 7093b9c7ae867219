use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::error;

use crate::dispatch::shielded;

/// What a relay counts. Every method does nothing unless overridden.
pub trait RelayMetrics: Send + Sync + 'static {
    /// A batch was fetched, handled and committed in this time.
    fn batch_duration(&self, time: Duration) {
        let _ = time;
    }

    /// So many events were delivered.
    fn processed(&self, count: u64) {
        let _ = count;
    }

    /// So many attempts, fetches or commits failed.
    fn errors(&self, count: u64) {
        let _ = count;
    }

    /// So many events will be tried again.
    fn retries(&self, count: u64) {
        let _ = count;
    }

    /// So many events became DEAD.
    fn dead(&self, count: u64) {
        let _ = count;
    }

    /// So many events are pending; told only where
    /// [`pending_interval`](super::RelayOptions::pending_interval) is set.
    fn pending(&self, count: u64) {
        let _ = count;
    }
}

/// No metrics: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRelayMetrics;

impl RelayMetrics for NoRelayMetrics {}

/// Metrics are somebody else's code, and a panic in them must not end a worker.
#[derive(Clone)]
pub(super) struct Shielded(pub(super) Arc<dyn RelayMetrics>);

impl Shielded {
    pub(super) fn tell(&self, tell: impl FnOnce(&dyn RelayMetrics)) {
        if let Err(panic) = shielded(|| tell(&*self.0)) {
            error!(error = panic.report(), "a metrics method panicked");
        }
    }
}

/// Metrics kept in memory, to be read at any time.
#[derive(Debug, Default)]
pub struct RelayCounters {
    batches: AtomicU64,
    last_batch_micros: AtomicU64,
    batch_micros: AtomicU64,
    processed: AtomicU64,
    errors: AtomicU64,
    retries: AtomicU64,
    dead: AtomicU64,
    pending: AtomicU64,
    pending_samples: AtomicU64,
}

/// [`RelayCounters`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounterValues {
    /// Batches that were committed.
    pub batches: u64,
    /// How long the last of them took.
    pub last_batch: Duration,
    /// How long they took together.
    pub all_batches: Duration,
    /// Events delivered.
    pub processed: u64,
    /// Failed attempts, fetches and commits.
    pub errors: u64,
    /// Events to be tried again.
    pub retries: u64,
    /// Events given up.
    pub dead: u64,
    /// Pending events when they were last counted.
    pub pending: u64,
    /// How often they were counted.
    pub pending_samples: u64,
}

impl RelayCounters {
    /// The values now.
    pub fn values(&self) -> RelayCounterValues {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RelayCounterValues {
            batches: read(&self.batches),
            last_batch: Duration::from_micros(read(&self.last_batch_micros)),
            all_batches: Duration::from_micros(read(&self.batch_micros)),
            processed: read(&self.processed),
            errors: read(&self.errors),
            retries: read(&self.retries),
            dead: read(&self.dead),
            pending: read(&self.pending),
            pending_samples: read(&self.pending_samples),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl RelayMetrics for RelayCounters {
    fn batch_duration(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        add(&self.batches, 1);
        add(&self.batch_micros, micros);
        self.last_batch_micros.store(micros, Ordering::Relaxed);
    }

    fn processed(&self, count: u64) {
        add(&self.processed, count);
    }

    fn errors(&self, count: u64) {
        add(&self.errors, count);
    }

    fn retries(&self, count: u64) {
        add(&self.retries, count);
    }

    fn dead(&self, count: u64) {
        add(&self.dead, count);
    }

    fn pending(&self, count: u64) {
        self.pending.store(count, Ordering::Relaxed);
        add(&self.pending_samples, 1);
    }
}
