use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sendoff_core::Timestamp;
use sendoff_engine::{Clock, TokioClock};

/// The database's clock, which follows virtual time and jumps when told. Clones are one clock.
#[derive(Debug, Clone)]
pub(super) struct JumpingClock {
    steady: TokioClock,
    ahead_micros: Arc<AtomicI64>,
}

impl JumpingClock {
    pub(super) fn starting_at(epoch: Timestamp) -> Self {
        Self { steady: TokioClock::starting_at(epoch), ahead_micros: Arc::default() }
    }

    pub(super) fn jump(&self, by: Duration, ahead: bool) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.ahead_micros.fetch_add(if ahead { micros } else { -micros }, Ordering::Relaxed);
    }

    /// Whether it ever jumped.
    pub(super) fn jumped(&self) -> bool {
        self.ahead_micros.load(Ordering::Relaxed) != 0
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead_micros.load(Ordering::Relaxed);
        Timestamp::from_micros(self.steady.now().as_micros() + ahead)
    }
}
