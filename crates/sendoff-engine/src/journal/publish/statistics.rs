//! What a node counts of everything it publishes.

use std::sync::{Arc, Mutex};

use sendoff_core::journal::Recorded;
use sendoff_core::journal::publish::PairId;

use super::included::Seen;
use super::metrics::{CountedPairs, PublishCounters, PublishMetrics, Shielded};
use crate::lock::lock;

/// Statistics over all publishers of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// What was published, by all pairs together.
    pub published: Seen,
    /// Pairs the node leads.
    pub leading: usize,
    /// Pairs it took from a node that was dead.
    pub failovers: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Facts that were set aside.
    pub parked: u64,
    /// Cursors that were another's, or somewhere else.
    pub fenced: u64,
    /// Each pair's own numbers.
    pub pairs: CountedPairs,
}

/// Counts twice: for whoever plugged metrics in, and for [`Statistics`], which are always on.
#[derive(Clone)]
pub(super) struct Counts {
    metrics: Shielded,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    totals: Mutex<Statistics>,
    pairs: PublishCounters,
}

impl Counts {
    pub(super) fn new(metrics: Arc<dyn PublishMetrics>) -> Self {
        Self { metrics: Shielded(metrics), tally: Arc::default() }
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics { pairs: self.tally.pairs.values(), ..lock(&self.tally.totals).clone() }
    }

    pub(super) fn published(&self, pair: &PairId, facts: &[Arc<Recorded>]) {
        if !facts.is_empty() {
            self.total(|totals| totals.published.count(facts));
            self.tell(|metrics| metrics.published(pair, facts.len()));
        }
    }

    pub(super) fn failed(&self, pair: &PairId, runs: usize) {
        self.total(|totals| totals.failed += runs as u64);
        for _ in 0..runs {
            self.tell(|metrics| metrics.failed(pair));
        }
    }

    pub(super) fn parked(&self, pair: &PairId, facts: usize) {
        self.total(|totals| totals.parked += facts as u64);
        self.tell(|metrics| metrics.parked(pair, facts));
    }

    pub(super) fn fenced(&self, pair: &PairId) {
        self.total(|totals| totals.fenced += 1);
        self.tell(|metrics| metrics.fenced(pair));
    }

    pub(super) fn took(&self, pair: &PairId, failover: bool) {
        self.total(|totals| totals.failovers += u64::from(failover));
        self.tell(|metrics| metrics.took(pair, failover));
    }

    pub(super) fn gave(&self, pair: &PairId) {
        self.tell(|metrics| metrics.gave(pair));
    }

    pub(super) fn leading(&self, pairs: usize) {
        self.total(|totals| totals.leading = pairs);
        self.tell(|metrics| metrics.leading(pairs));
    }

    pub(super) fn lag(&self, pair: &PairId, positions: u64) {
        self.tell(|metrics| metrics.lag(pair, positions));
    }

    fn total(&self, count: impl FnOnce(&mut Statistics)) {
        count(&mut lock(&self.tally.totals));
    }

    fn tell(&self, call: impl Fn(&dyn PublishMetrics)) {
        call(&self.tally.pairs);
        self.metrics.tell(call);
    }
}
