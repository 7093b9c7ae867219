//! A clock that moves when told.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sendoff_core::Timestamp;
use sendoff_engine::Clock;

/// The beginning of 2030: a round number that is easy to know again in a failing test.
const START: Timestamp = Timestamp::from_micros(1_893_456_000_000_000);

/// A clock that stands still until it is moved. Clones are one clock.
///
/// ```
/// use std::time::Duration;
/// use sendoff_engine::Clock;
/// use sendoff_testkit::clock::ManualClock;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(5));
/// clock.step_back(Duration::from_secs(2));
/// assert_eq!(clock.now().since(before), Duration::from_secs(3));
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that reads the beginning of 2030.
    pub fn new() -> Self {
        Self::starting_at(START)
    }

    /// A clock that reads `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_micros())))
    }

    /// Moves it ahead.
    pub fn advance(&self, by: Duration) {
        self.change(|now| now.saturating_add(by));
    }

    /// Moves it back, as a corrected server clock moves.
    pub fn step_back(&self, by: Duration) {
        self.change(|now| now.saturating_sub(by));
    }

    fn change(&self, change: impl Fn(Timestamp) -> Timestamp) {
        let step = |micros| Some(change(Timestamp::from_micros(micros)).as_micros());
        // Always `Some`, so always done.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
