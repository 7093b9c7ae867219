//! What an answer of a target means, in the same four words for every sink.
//!
//! | class | what follows |
//! |---|---|
//! | *unavailable* | the target cannot be reached, is full or is starting: the event waits, and no attempt is used up |
//! | *refused now* | the target does not want this event at this moment: it is tried again, and the attempt counts |
//! | *poison* | the target can never take this event: it is dead, alone |
//! | *misconfigured* | what the sink was told is wrong: credentials, or a stream that is not there |
//!
//! A sink that is misconfigured does not start: the error names the option by its path, never a secret. What becomes
//! misconfigured later, because a password was changed or a stream deleted while the sink ran, loses nothing: events wait as
//! for a target that is unavailable, the log says so as an error, once a minute, and everything flows when it was put
//! right, without a restart. An event is no worse for what an operator did to the target.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::{BoxError, Failure, limits};
use tokio::time::Instant;

/// How long events wait before a target that refuses what a sink was told is asked again: somebody has to mend it.
pub const MISCONFIGURED_FOR: Duration = Duration::from_secs(15);
/// How often the log says the same.
const EVERY: Duration = Duration::from_secs(60);

/// What an answer of a target means for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The target cannot be reached, is full or is starting. No attempt.
    Unavailable,
    /// The target does not want this event now; later than this where it said so.
    RefusedNow {
        /// How long the target asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// The target can never take this event.
    Poison,
    /// What the sink was told is wrong. No attempt.
    Misconfigured,
}

impl Class {
    /// Refused, without a time.
    pub const REFUSED_NOW: Self = Self::RefusedNow { retry_after: None };

    /// The failure of an event, because of `error`.
    pub fn failure(self, error: impl Into<BoxError>) -> Failure {
        match self {
            Self::Unavailable => Failure::unavailable(Duration::ZERO, error),
            Self::RefusedNow { retry_after: None } => Failure::retry(error),
            Self::RefusedNow { retry_after: Some(delay) } => {
                Failure::retry_after(delay.min(limits::DELAY), error)
            }
            Self::Poison => Failure::dead(error),
            Self::Misconfigured => Failure::unavailable(MISCONFIGURED_FOR, error),
        }
    }
}

/// What a sink was told is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Misconfigured {
    path: String,
    reason: String,
    source: Option<BoxError>,
}

impl Misconfigured {
    /// The option of this path, such as `nats.subject`, is wrong for this reason. The reason names no secret.
    pub fn new(path: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { path: path.into(), reason: reason.to_string(), source: None }
    }

    /// The same, with what the target or its client said. Only of what cannot have a secret in it.
    pub fn because(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The option.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether a time is within its bounds.
    pub(crate) fn unless_within(
        path: impl Into<String>,
        value: Duration,
        least: Duration,
        most: Duration,
    ) -> Result<(), Self> {
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(Self::new(
                path,
                format_args!("is {value:?}; it must be from {least:?} to {most:?}"),
            )),
        }
    }

    /// Whether a number is within its bounds.
    pub(crate) fn unless_from_to(
        path: impl Into<String>,
        value: u64,
        least: u64,
        most: u64,
    ) -> Result<(), Self> {
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => {
                Err(Self::new(path, format_args!("is {value}; it must be from {least} to {most}")))
            }
        }
    }
}

/// Why something between a sink and its target did not come about.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The target cannot be reached, or does not answer.
    #[error(transparent)]
    Unavailable(BoxError),
    /// What the sink was told is wrong.
    #[error(transparent)]
    Misconfigured(#[from] Misconfigured),
}

impl Trouble {
    /// The target is unavailable, because of `error`.
    pub fn unavailable(error: impl Into<BoxError>) -> Self {
        Self::Unavailable(error.into())
    }

    /// Its class.
    pub const fn class(&self) -> Class {
        match self {
            Self::Unavailable(_) => Class::Unavailable,
            Self::Misconfigured(_) => Class::Misconfigured,
        }
    }
}

/// One error that many events of a batch fail with.
#[derive(Debug, Clone)]
pub struct Shared(Arc<BoxError>);

impl Shared {
    /// Shares it.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(Arc::new(error.into()))
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, f)
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// What goes on is said the first time, and then once a minute, with how often it happened.
#[derive(Debug, Default)]
pub(crate) struct OnceAMinute(Mutex<(Option<Instant>, u64)>);

impl OnceAMinute {
    /// It happened. Where it is to be said, how often it did since it last was.
    pub(crate) fn again(&self) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, unsaid) = &mut *said;
        *unsaid = unsaid.saturating_add(1);
        let now = Instant::now();
        if last.is_some_and(|last| now.duration_since(last) < EVERY) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(unsaid))
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::FailureClass;

    use super::*;

    #[test]
    fn a_class_says_what_follows() {
        let class = |class: Class| class.failure("no").class();
        assert_eq!(class(Class::Unavailable), FailureClass::Unavailable { delay: Duration::ZERO });
        assert_eq!(class(Class::REFUSED_NOW), FailureClass::Retry);
        let told = |delay| Class::RefusedNow { retry_after: Some(delay) };
        let second = Duration::from_secs(1);
        assert_eq!(class(told(second)), FailureClass::RetryAfter { delay: second });
        let longest = FailureClass::RetryAfter { delay: limits::DELAY };
        assert_eq!(class(told(Duration::MAX)), longest);
        assert_eq!(class(Class::Poison), FailureClass::Dead);
        assert_eq!(
            class(Class::Misconfigured),
            FailureClass::Unavailable { delay: MISCONFIGURED_FOR }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_on_is_said_once_a_minute() {
        let said = OnceAMinute::default();
        let mut heard = Vec::new();
        for second in 0..130 {
            heard.extend(said.again().map(|times| (second, times)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(heard, [(0, 1), (60, 60), (120, 60)]);
    }

    #[test]
    fn an_error_that_is_shared_keeps_its_cause() {
        let io = std::io::Error::other("the cable");
        let shared = Shared::new(Misconfigured::new("nats.url", "cannot be used").because(io));
        assert_eq!(sendoff_core::report(&shared), "nats.url: cannot be used: the cable");
    }
}
