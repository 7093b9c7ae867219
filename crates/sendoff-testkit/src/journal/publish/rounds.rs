//! Waiting until a node has looked at its tables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sendoff_core::journal::publish::PairId;
use sendoff_engine::{Counters, Metrics};

use crate::wait::eventually;

/// Rounds after which a node has seen whatever was in the tables before the first of them: one may be
/// under way, and one may wait to be taken in.
const ENOUGH: u64 = 3;

/// Counts, and knows how often a node has looked at what stands in the tables.
#[derive(Debug, Default)]
pub struct Rounds {
    /// What was counted.
    pub counters: Counters,
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

impl Metrics for Rounds {
    /// Told once a round, and when it changes.
    fn pairs_led(&self, pairs: usize) {
        if pairs == 0 {
            self.idle.fetch_add(1, Ordering::Relaxed);
        }
        self.counters.pairs_led(pairs);
    }

    fn pair_taken(&self, pair: &PairId, failover: bool) {
        self.counters.pair_taken(pair, failover);
    }

    fn pair_released(&self, pair: &PairId) {
        self.counters.pair_released(pair);
    }

    fn pair_published(&self, pair: &PairId, facts: usize) {
        self.counters.pair_published(pair, facts);
    }

    fn pair_failed(&self, pair: &PairId) {
        self.counters.pair_failed(pair);
    }

    fn pair_parked(&self, pair: &PairId, facts: usize) {
        self.counters.pair_parked(pair, facts);
    }

    fn pair_fenced(&self, pair: &PairId) {
        self.counters.pair_fenced(pair);
    }

    /// Told once a round of each pair that is led.
    fn pair_lag(&self, pair: &PairId, positions: u64) {
        self.counters.pair_lag(pair, positions);
        *self.lock().entry(pair.clone()).or_default() += 1;
    }
}
