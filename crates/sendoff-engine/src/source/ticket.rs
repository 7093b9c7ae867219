//! The right to run one event, and until when it is certain; when its bearer is lost, the hold is
//! released.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sendoff_core::{EventId, Holding};
use tokio::time::Instant;

use super::keys::{InKey, Keys};
use super::{Holds, Joined, Run};
use crate::store::Held;

/// Until when a hold is certain, by this host.
///
/// Two clocks, and the earlier one counts: the monotonic clock stands still while a machine sleeps,
/// and the wall clock may be set back. Either can only make us stop sooner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    monotonic: Instant,
    wall: SystemTime,
}

impl Deadline {
    /// So long from now. Taken *before* the statement that makes the hold is sent, so that a node
    /// that was stopped in between delivers nothing it has lost.
    pub(crate) fn after(duration: Duration) -> Self {
        Self { monotonic: Instant::now() + duration, wall: SystemTime::now() + duration }
    }

    /// Whether less than `duration` is left.
    pub(crate) fn is_within(&self, duration: Duration) -> bool {
        self.monotonic <= Instant::now() + duration || self.wall <= SystemTime::now() + duration
    }

    pub(crate) fn is_after(&self, other: &Self) -> bool {
        self.monotonic > other.monotonic
    }

    pub(crate) fn is_past(&self) -> bool {
        self.is_within(Duration::ZERO)
    }
}

/// The right to run one event, from its admission to its settlement.
///
/// Whatever happens to its bearer (a lane that is full, a worker that panics, a future that is
/// dropped), its hold is not forgotten: a ticket that is dropped releases it, so that
/// somebody else can have the row.
#[derive(Debug)]
pub(crate) struct Ticket {
    holds: Arc<Holds>,
    id: EventId,
    run: Run,
    /// The key it goes through, where its events are ordered.
    key: Option<Box<InKey>>,
}

impl Ticket {
    pub(super) fn new(holds: Arc<Holds>, id: EventId, run: Run) -> Self {
        Self { holds, id, run, key: None }
    }

    /// Goes through this key: others of it wait for this one.
    pub(crate) fn through(mut self, keys: &Arc<Keys>, key: Arc<str>) -> Self {
        let by_key = matches!(self.held(), Some(Held { by: Holding::Key(_), .. }));
        self.key = Some(Box::new(InKey { keys: keys.clone(), key, by_key }));
        self
    }

    /// Whether the run may start: the row, or its key, is certainly ours now (I1).
    pub(crate) fn may_start(&self) -> bool {
        let key = self.key.as_ref().filter(|key| key.by_key);
        key.is_none_or(|held| held.keys.may_start(&held.key)) && self.holds.start(self.id, self.run)
    }

    pub(crate) fn id(&self) -> EventId {
        self.id
    }

    pub(super) fn run(&self) -> Run {
        self.run
    }

    /// The key it goes through.
    pub(crate) fn key(&self) -> Option<&Arc<str>> {
        self.key.as_ref().map(|key| &key.key)
    }

    /// Whether it is held by its key, and settled with that.
    pub(crate) fn goes_by_key(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.by_key)
    }

    /// What to settle the run by; `None` if its hold was lost.
    pub(crate) fn held(&self) -> Option<Held> {
        self.holds.held(self.id, self.run)
    }

    /// The same, with the time until which it is certain.
    pub(crate) fn held_until(&self) -> Option<(Held, Deadline)> {
        self.holds.held_until(self.id, self.run)
    }

    /// Whether the run settles it in a transaction of its own.
    pub(crate) fn joined(&self) -> Joined {
        self.holds.joined(self.id, self.run)
    }

    /// The run made its effect. Answers whether it was to settle it in the effect's transaction.
    pub(crate) fn succeeded(&self) -> bool {
        self.holds.succeeded(self.id, self.run)
    }

    /// The run is over: what is left is to settle it.
    pub(crate) fn run_is_over(&self) {
        self.holds.end(self.id, self.run);
    }

    /// Releases the hold, for others: this node does not look for it at once.
    pub(crate) fn leave_to_others(self) {
        if let Some(held) = self.holds.forget(self.id, self.run) {
            self.holds.leave_to_others(held);
        }
    }

    /// The run is over and settled by this hold: there is nothing to release. Unless the poller was
    /// quicker than the settlement's reply, and claimed the row anew while the run was still known
    /// here: that claim serves nobody, and would keep the row from everybody until it ran out.
    pub(crate) fn settled(self, by: Held) {
        match self.holds.forget(self.id, self.run) {
            Some(newer) if newer != by => self.holds.release(newer),
            _ => {}
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Finds nothing after `settled`.
        if let Some(held) = self.holds.forget(self.id, self.run) {
            self.holds.release(held);
        }
        if let Some(InKey { keys, key, by_key }) = self.key.as_deref() {
            keys.dropped(key, self.run, *by_key);
        }
    }
}
