use std::fmt;

use sendoff_core::Timestamp;
use tokio::time::Instant;

/// The clock of a store that has no server of its own.
///
/// A database server's clock is asked by its SQL. The in-memory and the embedded store take theirs
/// from here, so that a test can hold it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The host's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Wall time at its creation, then tokio's monotonic time: it follows `tokio::time::pause`.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    started: Instant,
    epoch: Timestamp,
}

impl TokioClock {
    /// A clock that reads `epoch` now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { started: Instant::now(), epoch }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.epoch.saturating_add(self.started.elapsed())
    }
}
