use std::time::Duration;

use tokio::time::Instant;

/// When suspects have their turn under endless load: once an interval, and never for more than half of
/// the time, since nothing else is claimed meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    interval: Duration,
    next_at: Instant,
}

impl Turns {
    /// The first turn is in an interval from now.
    pub(crate) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next_at: now + interval }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_at
    }

    /// When the next turn is.
    pub(crate) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// A turn that began then is over.
    pub(crate) fn over(&mut self, began: Instant, now: Instant) {
        self.next_at = now + self.interval.max(now.saturating_duration_since(began));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_turn_is_followed_by_as_long_a_time_for_the_others() {
        const SECOND: Duration = Duration::from_secs(1);
        let start = Instant::now();
        let mut turns = Turns::new(5 * SECOND, start);
        assert!(!turns.is_due(start) && turns.is_due(start + 5 * SECOND));
        turns.over(start, start + SECOND);
        assert!(turns.is_due(start + 6 * SECOND));
        turns.over(start, start + 20 * SECOND);
        assert!(!turns.is_due(start + 39 * SECOND) && turns.is_due(start + 40 * SECOND));
    }
}
