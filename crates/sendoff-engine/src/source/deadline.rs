use std::time::{Duration, SystemTime};

use tokio::time::Instant;

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
