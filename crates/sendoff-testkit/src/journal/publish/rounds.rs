use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sendoff_core::journal::publish::PairId;
use sendoff_engine::journal::publish::{PublishCounters, PublishMetrics};

use crate::wait::eventually;

/// Rounds after which a node has seen whatever was in the tables before the first of them: one may be
/// under way, and one may wait to be taken in.
const ENOUGH: u64 = 3;

/// Counts, and knows how often a node has looked at what stands in the tables.
#[derive(Debug, Default)]
pub struct Rounds {
    /// What was counted.
    pub counters: PublishCounters,
    rounds: Mutex<BTreeMap<PairId, u64>>,
    idle: AtomicU64,
}

impl Rounds {
    /// None yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Waits until whoever leads the pair has seen what is in the tables now.
    pub async fn pass(&self, pair: &PairId) {
        let rounds = || self.lock().get(pair).copied().unwrap_or(0);
        let before = rounds();
        eventually("some rounds", async || rounds() >= before + ENOUGH).await;
    }

    /// The same for a node that leads nothing, and goes on leading nothing.
    pub async fn pass_idle(&self) {
        let before = self.idle.load(Ordering::Relaxed);
        let enough = async || self.idle.load(Ordering::Relaxed) >= before + ENOUGH;
        eventually("some rounds", enough).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PairId, u64>> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PublishMetrics for Rounds {
    /// Told once a round, and when it changes.
    fn leading(&self, pairs: usize) {
        if pairs == 0 {
            self.idle.fetch_add(1, Ordering::Relaxed);
        }
        self.counters.leading(pairs);
    }

    fn took(&self, pair: &PairId, failover: bool) {
        self.counters.took(pair, failover);
    }

    fn gave(&self, pair: &PairId) {
        self.counters.gave(pair);
    }

    fn published(&self, pair: &PairId, facts: usize) {
        self.counters.published(pair, facts);
    }

    fn failed(&self, pair: &PairId) {
        self.counters.failed(pair);
    }

    fn parked(&self, pair: &PairId, facts: usize) {
        self.counters.parked(pair, facts);
    }

    fn fenced(&self, pair: &PairId) {
        self.counters.fenced(pair);
    }

    /// Told once a round of each pair that is led.
    fn lag(&self, pair: &PairId, positions: u64) {
        self.counters.lag(pair, positions);
        *self.lock().entry(pair.clone()).or_default() += 1;
    }
}
