//! Failures in a row: when they are worth a line in the log, and when they are over.

use std::time::Duration;

use tokio::time::Instant;

/// How often failures that go on are spoken of.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Whether something fails, and since when. Decides; the time is told.
#[derive(Debug, Default)]
pub(crate) struct Streak(Option<Failing>);

#[derive(Debug)]
struct Failing {
    since: Instant,
    told: Instant,
    failures: u64,
}

/// What to say of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed {
    /// For how long it has been so, if this is not the first.
    pub(crate) since: Option<Duration>,
    /// How many there were, this one included.
    pub(crate) failures: u64,
}

impl Streak {
    /// It failed: says what to say of it, at first and then once a minute.
    pub(crate) fn failed(&mut self, now: Instant) -> Option<Failed> {
        let Some(failing) = &mut self.0 else {
            self.0 = Some(Failing { since: now, told: now, failures: 1 });
            return Some(Failed { since: None, failures: 1 });
        };
        failing.failures += 1;
        if now.saturating_duration_since(failing.told) < TOLD_EVERY {
            return None;
        }
        failing.told = now;
        let since = now.saturating_duration_since(failing.since);
        Some(Failed { since: Some(since), failures: failing.failures })
    }

    /// It did not: says for how long it had, if it had.
    pub(crate) fn over(&mut self, now: Instant) -> Option<Duration> {
        self.0.take().map(|failing| now.saturating_duration_since(failing.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_at_first_then_once_a_minute_and_its_end_once() {
        let (mut streak, start) = (Streak::default(), Instant::now());
        assert_eq!(streak.over(start), None);
        let second = Duration::from_secs(1);
        let told: Vec<_> = (0..=120).filter_map(|at| streak.failed(start + second * at)).collect();
        let said = |minutes, failures| Failed { since: Some(TOLD_EVERY * minutes), failures };
        assert_eq!(told, [Failed { since: None, failures: 1 }, said(1, 61), said(2, 121)]);
        assert_eq!(streak.over(start + second * 130), Some(second * 130));
        assert_eq!(streak.over(start + second * 131), None);
    }
}
