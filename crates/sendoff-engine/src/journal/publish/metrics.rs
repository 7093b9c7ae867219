use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sendoff_core::journal::publish::PairId;
use tracing::error;

use crate::dispatch::shielded;
use crate::lock::lock;

/// What publishing counts, pair by pair. Every method does nothing unless overridden.
pub trait PublishMetrics: Send + Sync + 'static {
    /// So many pairs are led by this node.
    fn leading(&self, pairs: usize) {
        let _ = pairs;
    }

    /// This node leads a pair from now on; `failover` if whoever led it before is dead.
    fn took(&self, pair: &PairId, failover: bool) {
        let _ = (pair, failover);
    }

    /// This node leads a pair no more: it gave it up, or it was taken.
    fn gave(&self, pair: &PairId) {
        let _ = pair;
    }

    /// So many facts were published.
    fn published(&self, pair: &PairId, facts: usize) {
        let _ = (pair, facts);
    }

    /// Publishing failed: a batch, a fact by itself, or one that was set aside and tried again.
    fn failed(&self, pair: &PairId) {
        let _ = pair;
    }

    /// So many facts were set aside.
    fn parked(&self, pair: &PairId, facts: usize) {
        let _ = (pair, facts);
    }

    /// A cursor was not moved: somebody else has the pair, or it is not where it was.
    fn fenced(&self, pair: &PairId) {
        let _ = pair;
    }

    /// So many positions lie between a pair this node leads and the last one that was taken. Told once a
    /// round, whatever the pair's status is.
    fn lag(&self, pair: &PairId, positions: u64) {
        let _ = (pair, positions);
    }
}

/// No metrics: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPublishMetrics;

impl PublishMetrics for NoPublishMetrics {}

/// Somebody else's code, whose panic must not stop publishing.
#[derive(Clone)]
pub(super) struct Shielded(pub(super) Arc<dyn PublishMetrics>);

impl Shielded {
    pub(super) fn tell(&self, call: impl FnOnce(&dyn PublishMetrics)) {
        if let Err(panic) = shielded(|| call(&*self.0)) {
            error!(error = panic.report(), "a metrics method panicked");
        }
    }
}

/// Metrics kept in memory, to be read at any time.
#[derive(Debug, Default)]
pub struct PublishCounters(Mutex<CountedPairs>);

/// [`PublishCounters`] at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountedPairs {
    /// Pairs this node leads.
    pub leading: usize,
    /// Each pair it ever led.
    pub pairs: BTreeMap<PairId, CountedPair>,
}

/// What was counted of a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what the method of PublishMetrics with its name reports")]
pub struct CountedPair {
    pub took: u64,
    pub failovers: u64,
    pub gave: u64,
    pub published: u64,
    pub failed: u64,
    pub parked: u64,
    pub fenced: u64,
    pub lag: u64,
}

impl PublishCounters {
    /// The values now.
    pub fn values(&self) -> CountedPairs {
        lock(&self.0).clone()
    }

    fn pair(&self, pair: &PairId, count: impl FnOnce(&mut CountedPair)) {
        let mut counted = lock(&self.0);
        match counted.pairs.get_mut(pair) {
            Some(known) => count(known),
            None => count(counted.pairs.entry(pair.clone()).or_default()),
        }
    }
}

impl PublishMetrics for PublishCounters {
    fn leading(&self, pairs: usize) {
        lock(&self.0).leading = pairs;
    }

    fn took(&self, pair: &PairId, failover: bool) {
        self.pair(pair, |counted| {
            counted.took += 1;
            counted.failovers += u64::from(failover);
        });
    }

    fn gave(&self, pair: &PairId) {
        self.pair(pair, |counted| counted.gave += 1);
    }

    fn published(&self, pair: &PairId, facts: usize) {
        self.pair(pair, |counted| counted.published += facts as u64);
    }

    fn failed(&self, pair: &PairId) {
        self.pair(pair, |counted| counted.failed += 1);
    }

    fn parked(&self, pair: &PairId, facts: usize) {
        self.pair(pair, |counted| counted.parked += facts as u64);
    }

    fn fenced(&self, pair: &PairId) {
        self.pair(pair, |counted| counted.fenced += 1);
    }

    fn lag(&self, pair: &PairId, positions: u64) {
        self.pair(pair, |counted| counted.lag = positions);
    }
}
