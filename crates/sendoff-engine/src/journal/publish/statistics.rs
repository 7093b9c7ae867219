//! What a node counts of everything it publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use sendoff_core::journal::Recorded;
use sendoff_core::journal::publish::PairId;

use crate::lock::lock;
use crate::operate::{CountedPair, Counters, Metrics, Observer};
use crate::sink::Seen;

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
    /// Facts that were parked.
    pub parked: u64,
    /// Cursors that were another's, or somewhere else.
    pub fenced: u64,
    /// Each pair's own numbers.
    pub pairs: BTreeMap<PairId, CountedPair>,
}

/// Counts twice: for whoever plugged metrics in, and for [`Statistics`], which are always on.
#[derive(Clone)]
pub(super) struct Counts {
    observer: Observer,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    totals: Mutex<Statistics>,
    /// Pairs whose target is unavailable.
    unavailable: Mutex<BTreeSet<PairId>>,
    counters: Counters,
}

impl Counts {
    pub(super) fn new(observer: Observer) -> Self {
        Self { observer, tally: Arc::default() }
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics { pairs: self.tally.counters.values().pairs, ..lock(&self.tally.totals).clone() }
    }

    pub(super) fn published(&self, pair: &PairId, facts: &[Arc<Recorded>]) {
        if !facts.is_empty() {
            let seen = facts.iter().map(|fact| (fact.event().event_type(), fact.position));
            self.available(pair);
            self.total(|totals| totals.published.count(seen));
            self.tell(|metrics| metrics.pair_published(pair, facts.len()));
        }
    }

    pub(super) fn failed(&self, pair: &PairId, runs: usize) {
        self.total(|totals| totals.failed += runs as u64);
        for _ in 0..runs {
            self.tell(|metrics| metrics.pair_failed(pair));
        }
    }

    /// The target of a pair is unavailable.
    pub(super) fn unavailable(&self, pair: &PairId) {
        let is_known = {
            let mut unavailable = lock(&self.tally.unavailable);
            let is_known = is_any_of(&unavailable, pair);
            unavailable.insert(pair.clone());
            is_known
        };
        if !is_known {
            self.tell(|metrics| metrics.target_unavailable(pair.publisher(), true));
        }
    }

    /// It is back, or another node's to know. A publisher has one target for all its topics.
    fn available(&self, pair: &PairId) {
        let is_news = {
            let mut unavailable = lock(&self.tally.unavailable);
            unavailable.remove(pair) && !is_any_of(&unavailable, pair)
        };
        if is_news {
            self.tell(|metrics| metrics.target_unavailable(pair.publisher(), false));
        }
    }

    pub(super) fn parked(&self, pair: &PairId, facts: usize) {
        self.total(|totals| totals.parked += facts as u64);
        self.tell(|metrics| metrics.pair_parked(pair, facts));
    }

    pub(super) fn fenced(&self, pair: &PairId) {
        self.total(|totals| totals.fenced += 1);
        self.tell(|metrics| metrics.pair_fenced(pair));
    }

    pub(super) fn took(&self, pair: &PairId, failover: bool) {
        self.total(|totals| totals.failovers += u64::from(failover));
        self.tell(|metrics| metrics.pair_taken(pair, failover));
    }

    pub(super) fn gave(&self, pair: &PairId) {
        self.available(pair);
        self.tell(|metrics| metrics.pair_released(pair));
    }

    pub(super) fn leading(&self, pairs: usize) {
        self.total(|totals| totals.leading = pairs);
        self.tell(|metrics| metrics.pairs_led(pairs));
    }

    pub(super) fn lag(&self, pair: &PairId, positions: u64) {
        self.tell(|metrics| metrics.pair_lag(pair, positions));
    }

    fn total(&self, count: impl FnOnce(&mut Statistics)) {
        count(&mut lock(&self.tally.totals));
    }

    fn tell(&self, call: impl Fn(&dyn Metrics)) {
        call(&self.tally.counters);
        self.observer.tell(call);
    }
}

/// Whether any of these pairs has the same publisher.
fn is_any_of(pairs: &BTreeSet<PairId>, pair: &PairId) -> bool {
    pairs.iter().any(|known| known.publisher() == pair.publisher())
}
