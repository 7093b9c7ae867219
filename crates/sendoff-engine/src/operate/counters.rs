//! Metrics in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::PauseScope;
use sendoff_core::journal::publish::PairId;

use super::labels::{EventTypes, Handlers};
use super::metrics::{HandlerRun, Metrics, RunOutcome};
use crate::lock::lock;
use crate::source::LaneDepths;

/// Metrics kept in memory, to be read at any time.
#[derive(Debug, Default)]
pub struct Counters {
    values: Mutex<CounterValues>,
    event_types: EventTypes,
    handlers: Handlers,
}

/// [`Counters`] at one moment: of outboxes first, of relays, of publishers, and of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CounterValues {
    /// Events that were written.
    pub written: u64,
    /// Events that entered the hot lane.
    pub hot_enqueued: u64,
    /// Events left to the poller because the hot lane was full.
    pub hot_dropped: u64,
    /// Events that entered the cold lane.
    pub cold_enqueued: u64,
    /// Runs of an outbox that succeeded.
    pub succeeded: u64,
    /// Runs of an outbox that failed.
    pub failed: u64,
    /// Events that became DEAD, also in relays.
    pub dead: u64,
    /// Settlements whose hold was another's by then, also in relays.
    pub fenced: u64,
    /// Rows that could not be released in time.
    pub unreleased: u64,
    /// Events in the hot lane.
    pub hot_depth: u64,
    /// Events in the cold lane.
    pub cold_depth: u64,
    /// How long ago the oldest pending event became due.
    pub oldest_lag: Duration,
    /// How long the next event has been due that nobody has taken.
    pub next_overdue: Duration,
    /// How many keys are parked behind a dead event, counted up to ten thousand.
    pub parked_keys: u64,
    /// Handlers and sinks whose target is unavailable, by name.
    pub unavailable: BTreeSet<String>,
    /// How long the oldest event in this node's hands has been there.
    pub oldest_in_flight: Duration,

    /// Batches that a relay committed.
    pub batches: u64,
    /// How long the last of them took.
    pub last_batch: Duration,
    /// How long they took together.
    pub all_batches: Duration,
    /// Events a relay delivered.
    pub processed: u64,
    /// Failed attempts, fetches and commits of a relay.
    pub errors: u64,
    /// Events a relay will try again.
    pub retries: u64,
    /// Pending events when a relay last counted them.
    pub pending: u64,
    /// How often it counted them.
    pub pending_samples: u64,

    /// Pairs this node leads.
    pub pairs_led: u64,
    /// Each pair it ever led.
    pub pairs: BTreeMap<PairId, CountedPair>,

    /// What is paused, as the component that was told last saw it.
    pub paused: BTreeSet<PauseScope>,

    /// Runs by event type and outcome. Types beyond the first 200 are counted as `other`.
    pub runs: BTreeMap<String, BTreeMap<RunOutcome, CountedRun>>,
}

/// What was counted of a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedPair {
    /// How often this node took it.
    pub taken: u64,
    /// How often it did because its leader was dead.
    pub failovers: u64,
    /// How often this node led it no more.
    pub released: u64,
    /// Facts that were published.
    pub published: u64,
    /// Batches and facts that failed.
    pub failed: u64,
    /// Facts that were parked.
    pub parked: u64,
    /// Cursors that were not moved.
    pub fenced: u64,
    /// Positions to the last one that was taken.
    pub lag: u64,
}

/// What was counted of runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedRun {
    /// How many.
    pub count: u64,
    /// How long they took together.
    pub took: Duration,
    /// How long the longest took.
    pub longest: Duration,
    /// The highest number of an attempt among them.
    pub most_attempts: u32,
}

impl Counters {
    /// The values now.
    pub fn values(&self) -> CounterValues {
        lock(&self.values).clone()
    }

    fn count(&self, count: impl FnOnce(&mut CounterValues)) {
        count(&mut lock(&self.values));
    }

    fn pair(&self, pair: &PairId, count: impl FnOnce(&mut CountedPair)) {
        let pairs = &mut lock(&self.values).pairs;
        match pairs.get_mut(pair) {
            Some(known) => count(known),
            None => count(pairs.entry(pair.clone()).or_default()),
        }
    }
}

impl Metrics for Counters {
    fn handler_ran(&self, run: &HandlerRun<'_>) {
        let event_type = self.event_types.name(run.event_type).to_owned();
        self.count(|values| {
            let outcomes = values.runs.entry(event_type).or_default();
            let counted = outcomes.entry(run.outcome).or_default();
            counted.count += 1;
            counted.took += run.took;
            counted.longest = counted.longest.max(run.took);
            counted.most_attempts = counted.most_attempts.max(run.attempt);
        });
    }

    fn paused(&self, scopes: &[PauseScope]) {
        self.count(|values| values.paused = scopes.iter().cloned().collect());
    }

    fn dead(&self, count: u64) {
        self.count(|values| values.dead += count);
    }

    fn fenced(&self, count: u64) {
        self.count(|values| values.fenced += count);
    }

    fn written(&self, count: u64) {
        self.count(|values| values.written += count);
    }

    fn hot_enqueued(&self) {
        self.count(|values| values.hot_enqueued += 1);
    }

    fn hot_dropped(&self) {
        self.count(|values| values.hot_dropped += 1);
    }

    fn cold_enqueued(&self) {
        self.count(|values| values.cold_enqueued += 1);
    }

    fn succeeded(&self) {
        self.count(|values| values.succeeded += 1);
    }

    fn failed(&self) {
        self.count(|values| values.failed += 1);
    }

    fn unreleased(&self, count: u64) {
        self.count(|values| values.unreleased += count);
    }

    fn lane_depths(&self, depths: LaneDepths) {
        self.count(|values| {
            values.hot_depth = depths.hot as u64;
            values.cold_depth = depths.cold as u64;
        });
    }

    fn oldest_lag(&self, lag: Duration) {
        self.count(|values| values.oldest_lag = lag);
    }

    fn next_overdue(&self, lag: Duration) {
        self.count(|values| values.next_overdue = lag);
    }

    fn parked_keys(&self, keys: u64) {
        self.count(|values| values.parked_keys = keys);
    }

    fn target_unavailable(&self, handler: &str, unavailable: bool) {
        self.count(|values| {
            if !unavailable {
                values.unavailable.remove(handler);
            } else if self.handlers.has(handler) {
                values.unavailable.insert(handler.to_owned());
            }
        });
    }

    fn oldest_in_flight(&self, age: Duration) {
        self.count(|values| values.oldest_in_flight = age);
    }

    fn batch_duration(&self, time: Duration) {
        self.count(|values| {
            values.batches += 1;
            values.last_batch = time;
            values.all_batches += time;
        });
    }

    fn processed(&self, count: u64) {
        self.count(|values| values.processed += count);
    }

    fn errors(&self, count: u64) {
        self.count(|values| values.errors += count);
    }

    fn retries(&self, count: u64) {
        self.count(|values| values.retries += count);
    }

    fn pending(&self, count: u64) {
        self.count(|values| {
            values.pending = count;
            values.pending_samples += 1;
        });
    }

    fn pairs_led(&self, pairs: usize) {
        self.count(|values| values.pairs_led = pairs as u64);
    }

    fn pair_taken(&self, pair: &PairId, failover: bool) {
        self.pair(pair, |counted| {
            counted.taken += 1;
            counted.failovers += u64::from(failover);
        });
    }

    fn pair_released(&self, pair: &PairId) {
        self.pair(pair, |counted| counted.released += 1);
    }

    fn pair_published(&self, pair: &PairId, facts: usize) {
        self.pair(pair, |counted| counted.published += facts as u64);
    }

    fn pair_failed(&self, pair: &PairId) {
        self.pair(pair, |counted| counted.failed += 1);
    }

    fn pair_parked(&self, pair: &PairId, facts: usize) {
        self.pair(pair, |counted| counted.parked += facts as u64);
    }

    fn pair_fenced(&self, pair: &PairId) {
        self.pair(pair, |counted| counted.fenced += 1);
    }

    fn pair_lag(&self, pair: &PairId, positions: u64) {
        self.pair(pair, |counted| counted.lag = positions);
    }
}
