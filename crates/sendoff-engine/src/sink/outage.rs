//! A target that is unavailable: since when, and how long it is left alone. For the circuits of handlers,
//! and for the pairs of a journal. Decides; the time is told.

use std::time::Duration;

use tokio::time::Instant;

/// The pauses between tries of a target that is unavailable: the first, then each twice as long, up to
/// the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pauses {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

/// An outage that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage {
    since: Instant,
    pause: Duration,
}

impl Outage {
    pub(crate) fn begin(pauses: Pauses, now: Instant) -> Self {
        Self { since: now, pause: pauses.first }
    }

    /// Another try failed: it is left alone for twice as long.
    pub(crate) fn goes_on(&mut self, pauses: Pauses) {
        self.pause = (self.pause * 2).min(pauses.longest);
    }

    /// How long its target is left alone now.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    /// For how long it has lasted.
    pub(crate) fn lasted(&self, now: Instant) -> Duration {
        now.duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (pauses, now) = (Pauses { first: SECOND, longest: 15 * SECOND }, Instant::now());
        let (mut outage, mut seen) = (Outage::begin(pauses, now), Vec::new());
        for _ in 0..6 {
            seen.push(outage.pause().as_secs());
            outage.goes_on(pauses);
        }
        assert_eq!(seen, [1, 2, 4, 8, 15, 15]);
        assert_eq!(outage.lasted(now + 7 * SECOND), 7 * SECOND);
    }
}
