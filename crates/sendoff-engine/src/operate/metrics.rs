//! What outboxes, relays and publishers count, and counters that keep it in memory.

use std::time::Duration;

use sendoff_core::journal::publish::PairId;
use sendoff_core::{FailureClass, PauseScope, Verdict};

use crate::source::LaneDepths;

/// What is counted and measured of outboxes, relays, topic workers and publishers. Every method does
/// nothing unless overridden; none may block. [`Counters`](super::Counters) keeps the numbers in memory.
///
/// One recorder may be given to several of them, which then count together.
pub trait Metrics: Send + Sync + 'static {
    /// Whether anything is measured at all; asked once, at the start. Where it says no, no other method
    /// is called, no clock is read and no query is made.
    fn enabled(&self) -> bool {
        true
    }

    /// Every way out: a handler or another sink had an event, between its interceptors.
    fn handler_ran(&self, run: &HandlerRun<'_>) {
        let _ = run;
    }

    /// Outbox and relay: so many events became DEAD.
    fn dead(&self, count: u64) {
        let _ = count;
    }

    /// Outbox and relay: so many events were handled, and what came of it was written too late: somebody else
    /// has them, and may deliver them again.
    fn fenced(&self, count: u64) {
        let _ = count;
    }

    /// Outbox and relay: exactly this is paused by operators. Told at the start, and whenever it changes.
    fn paused(&self, scopes: &[PauseScope]) {
        let _ = scopes;
    }

    /// Outbox, relay, topic worker and publisher: the target of the handler or sink of this name is unavailable, and its
    /// events wait; or it is back. Told when that changes: from the first failure that says so, or where many events fail
    /// and none succeeds, until one succeeds.
    fn target_unavailable(&self, handler: &str, unavailable: bool) {
        let _ = (handler, unavailable);
    }

    /// Outbox: so many events were written, also where it only writes: committed, by a guard or by
    /// [`send`](crate::Outbox::send), or inserted into a transaction of the caller's, who may still roll back.
    fn written(&self, count: u64) {
        let _ = count;
    }

    /// Outbox: an event entered the hot lane.
    fn hot_enqueued(&self) {}

    /// Outbox: the hot lane was full; the event is left to the poller.
    fn hot_dropped(&self) {}

    /// Outbox: an event entered the cold lane.
    fn cold_enqueued(&self) {}

    /// Outbox: a handler succeeded.
    fn succeeded(&self) {}

    /// Outbox: an attempt failed.
    fn failed(&self) {}

    /// Outbox: so many rows that nobody here wants could not be released, because too many waited for
    /// it; others see them when their holds end.
    fn unreleased(&self, count: u64) {
        let _ = count;
    }

    /// Outbox: how full the lanes are.
    fn lane_depths(&self, depths: LaneDepths) {
        let _ = depths;
    }

    /// Outbox: how long ago the oldest undelivered event first became due, also while it is held, retrying
    /// or waiting for its target: the one to alert on. With more than 1,000 pending events it is at least
    /// this.
    fn oldest_lag(&self, lag: Duration) {
        let _ = lag;
    }

    /// Outbox: how long the next event has been due that nobody has taken.
    fn next_overdue(&self, lag: Duration) {
        let _ = lag;
    }

    /// Outbox: how many keys are parked behind a dead event, counted up to ten thousand: each waits for a
    /// person.
    fn parked_keys(&self, keys: u64) {
        let _ = keys;
    }

    /// Outbox: how long the oldest event in this node's hands has been there, waiting or in work.
    fn oldest_in_flight(&self, age: Duration) {
        let _ = age;
    }

    /// Relay: a batch was fetched, handled and committed in this time.
    fn batch_duration(&self, time: Duration) {
        let _ = time;
    }

    /// Relay: so many events were delivered.
    fn processed(&self, count: u64) {
        let _ = count;
    }

    /// Relay: so many attempts, fetches or commits failed.
    fn errors(&self, count: u64) {
        let _ = count;
    }

    /// Relay: so many events will be tried again.
    fn retries(&self, count: u64) {
        let _ = count;
    }

    /// Relay: so many events are pending; told only where
    /// [`pending_interval`](crate::relay::RelayOptions::pending_interval) is set.
    fn pending(&self, count: u64) {
        let _ = count;
    }

    /// Publishers: so many pairs are led by this node.
    fn pairs_led(&self, pairs: usize) {
        let _ = pairs;
    }

    /// Publishers: this node leads a pair from now on; `failover` if whoever led it before is dead.
    fn pair_taken(&self, pair: &PairId, failover: bool) {
        let _ = (pair, failover);
    }

    /// Publishers: this node leads a pair no more: it released it, or another has it.
    fn pair_released(&self, pair: &PairId) {
        let _ = pair;
    }

    /// Publishers: so many facts were published.
    fn pair_published(&self, pair: &PairId, facts: usize) {
        let _ = (pair, facts);
    }

    /// Publishers: publishing failed: a batch, a fact by itself, or one that was parked and tried again.
    fn pair_failed(&self, pair: &PairId) {
        let _ = pair;
    }

    /// Publishers: so many facts were parked.
    fn pair_parked(&self, pair: &PairId, facts: usize) {
        let _ = (pair, facts);
    }

    /// Publishers: a cursor was not moved: another node leads the pair, or it is not where it was.
    fn pair_fenced(&self, pair: &PairId) {
        let _ = pair;
    }

    /// Publishers: so many positions lie between a pair this node leads and the last one that was taken.
    /// Told once a round, whatever the pair's status is.
    fn pair_lag(&self, pair: &PairId, positions: u64) {
        let _ = (pair, positions);
    }
}

/// One event that a handler or another sink had.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HandlerRun<'a> {
    /// The event's type.
    pub event_type: &'a str,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Which attempt it was; the first is 1.
    pub attempt: u32,
    /// How long it took; for events that came in one batch, how long the batch took.
    pub took: Duration,
}

/// How a run ended: what the handler said, not what becomes of the event. One that is to be tried again
/// may have used up its attempts; [`Metrics::dead`] counts those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunOutcome {
    /// It succeeded.
    Done,
    /// It failed, and may be tried again.
    Retry,
    /// It failed for good.
    Dead,
    /// Its target is unavailable.
    Unavailable,
}

impl RunOutcome {
    /// As a label: `done`, `retry`, `dead` or `unavailable`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retry => "retry",
            Self::Dead => "dead",
            Self::Unavailable => "unavailable",
        }
    }
}

impl From<&Verdict> for RunOutcome {
    fn from(verdict: &Verdict) -> Self {
        let Err(failure) = verdict else { return Self::Done };
        match failure.class() {
            FailureClass::Retry | FailureClass::RetryAfter { .. } => Self::Retry,
            FailureClass::Unavailable { .. } => Self::Unavailable,
            FailureClass::Dead => Self::Dead,
        }
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
