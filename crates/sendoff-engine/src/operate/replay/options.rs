//! How a replay goes, and why one is refused.

use std::time::Duration;

use sendoff_core::{FailureClass, InvalidFilter, ReplayMark};

use crate::options::{LONGEST, MOST, OptionsError, SHORTEST, check_counts, check_times};

/// Events on one page.
const PAGE_EVENTS: usize = 1_000;
/// More attempts of one event than this are no bound.
const MOST_ATTEMPTS: usize = 100;
/// The longest pause before an event is tried again, whatever its target asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How a replay goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Keys at once; events without a key are one of them, in their order. 8.
    pub keys_at_once: usize,
    /// Events in a second, at most. Without a limit.
    pub per_second: Option<usize>,
    /// Attempts that an event has in all. 3.
    pub max_attempts: u32,
    /// How long to wait after the first failed attempt; twice as long after each further one, up to a minute. 1 s.
    pub retry_after: Duration,
    /// How long one attempt may take. 60 s.
    pub timeout: Option<Duration>,
    /// What follows when an event has no attempt left. It stops.
    pub on_failure: OnReplayFailure,
    /// Ends when so many events were replayed or skipped. All.
    pub limit: Option<u64>,
    /// Goes on from where another replay with the same filter came to. The beginning.
    pub from: Option<ReplayMark>,
    /// Events that are read at once. 500.
    pub page: usize,
}

/// What follows when an event of a replay has no attempt left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnReplayFailure {
    /// The replay ends, and says where.
    #[default]
    Stop,
    /// The event is reported, and the next one of its key follows.
    Skip,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            keys_at_once: 8,
            per_second: None,
            max_attempts: 3,
            retry_after: Duration::from_secs(1),
            timeout: Some(Duration::from_secs(60)),
            on_failure: OnReplayFailure::Stop,
            limit: None,
            from: None,
            page: 500,
        }
    }
}

impl ReplayOptions {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let attempts = usize::try_from(self.max_attempts).unwrap_or(usize::MAX);
        check_counts(&[
            ("keys_at_once", self.keys_at_once, PAGE_EVENTS),
            ("per_second", self.per_second.unwrap_or(1), MOST),
            ("max_attempts", attempts, MOST_ATTEMPTS),
            ("page", self.page, PAGE_EVENTS),
        ])?;
        check_times(&[
            ("retry_after", self.retry_after, Duration::ZERO, LONGEST_PAUSE),
            ("timeout", self.timeout.unwrap_or(SHORTEST), SHORTEST, LONGEST),
        ])
    }

    /// How long to wait after a failed attempt; `None` where no other follows.
    pub(super) fn again(&self, class: FailureClass, attempt: u32) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let pause = self.retry_after.saturating_mul(factor);
        match class {
            FailureClass::Dead => None,
            FailureClass::Retry => Some(pause.min(LONGEST_PAUSE)),
            FailureClass::RetryAfter { delay } | FailureClass::Unavailable { delay } => {
                Some(pause.max(delay).min(LONGEST_PAUSE))
            }
        }
    }
}

/// Why a replay was refused, before anything was asked of the database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayRefused {
    /// The filter was.
    #[error(transparent)]
    Filter(#[from] InvalidFilter),
    /// An option was.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Nothing is kept that could be replayed.
    #[error(
        "delivered events are not kept: the store's retention is Retention::DeleteWhenDone. To replay what is \
         delivered from now on, give it Retention::Keep with how long they are to be kept"
    )]
    NothingKept,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        let good = ReplayOptions::default;
        let path = |options: ReplayOptions| options.validate().unwrap_err().path().to_owned();
        assert!(good().validate().is_ok());
        assert_eq!(path(ReplayOptions { keys_at_once: 0, ..good() }), "keys_at_once");
        assert_eq!(path(ReplayOptions { per_second: Some(0), ..good() }), "per_second");
        assert_eq!(path(ReplayOptions { max_attempts: 0, ..good() }), "max_attempts");
        assert_eq!(path(ReplayOptions { page: PAGE_EVENTS + 1, ..good() }), "page");
        let retry_after = LONGEST_PAUSE * 2;
        assert_eq!(path(ReplayOptions { retry_after, ..good() }), "retry_after");
        assert_eq!(path(ReplayOptions { timeout: Some(Duration::ZERO), ..good() }), "timeout");
    }

    #[test]
    fn attempts_and_pauses_are_bounded_whatever_a_target_asks_for() {
        let options = ReplayOptions { max_attempts: 10, ..ReplayOptions::default() };
        let seconds = |class, attempt| options.again(class, attempt).map(|pause| pause.as_secs());
        let retry = FailureClass::Retry;
        let pauses: Vec<_> = (1..=10).map(|attempt| seconds(retry, attempt)).collect();
        let doubled = [1, 2, 4, 8, 16, 32, 60, 60, 60].map(Some);
        assert_eq!(pauses, [&doubled[..], &[None]].concat());
        assert_eq!(seconds(FailureClass::Dead, 1), None);
        let hour = Duration::from_secs(3_600);
        assert_eq!(seconds(FailureClass::RetryAfter { delay: hour }, 1), Some(60));
        let delay = Duration::from_secs(5);
        assert_eq!(seconds(FailureClass::Unavailable { delay }, 1), Some(5));
    }
}
