//! Options about retries, which outbox and relay share.

use std::time::Duration;

use sendoff_core::{Exponential, Jitter, RetryPolicy};

use super::check::{LONGEST, OptionsError, check_counts, check_times};

/// How often an event is tried, and how long the pauses between are: `base`, then twice as long after
/// each further failure, up to `max`; each half as long or half as long again, by chance.
///
/// A [policy](RetryPolicy) of your own takes the place of the pauses, not of `max_attempts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct RetryOptions {
    /// The pause after a first failure, before jitter. 200 ms.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub base: Duration,
    /// The longest pause after a failure, before jitter. 60 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub max: Duration,
    /// Attempts before an event is dead. 10.
    pub max_attempts: u32,
}

impl Default for RetryOptions {
    fn default() -> Self {
        let Exponential { base, max } = Exponential::default();
        Self { base, max, max_attempts: 10 }
    }
}

impl RetryOptions {
    /// So many attempts have no end: an hour apart they take longer than a century. More are a mistake of
    /// units, not a wish.
    pub const ENDLESS: u32 = 1_000_000;

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let attempts = usize::try_from(self.max_attempts).unwrap_or(usize::MAX);
        check_counts(&[("max_attempts", attempts, Self::ENDLESS as usize)])?;
        check_times(&[
            ("base", self.base, Duration::ZERO, LONGEST),
            ("max", self.max, Duration::ZERO, LONGEST),
        ])
    }
}

impl RetryPolicy for RetryOptions {
    fn delay(&self, attempt: u32, jitter: Jitter) -> Duration {
        Exponential { base: self.base, max: self.max }.delay(attempt, jitter)
    }
}
