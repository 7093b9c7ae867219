//! Failures of a delivery and what each class of them leads to.

use std::fmt;
use std::time::Duration;

use crate::event::UnreadableJson;

/// Any error, as handlers and drivers give it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a delivery did not succeed, and what should follow.
///
/// Every error converts into one that is retried, so `?` works in a handler; only a payload that
/// cannot be read ([`UnreadableJson`]) is dead at once. The constructors say more where the handler
/// knows more.
///
/// ```
/// use sendoff_core::Failure;
///
/// fn parse(text: &str) -> Result<u32, Failure> {
///     if text.is_empty() {
///         return Err(Failure::dead("an empty amount will never become one"));
///     }
///     Ok(text.parse()?) // retried
/// }
/// assert!(parse("").is_err() && parse("x").is_err() && parse("3").is_ok());
/// ```
pub struct Failure {
    class: FailureClass,
    error: BoxError,
}

/// What should follow a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// Try again after the retry policy's delay; the attempt counts.
    Retry,
    /// Try again after this delay, as the target asked; the attempt counts.
    RetryAfter {
        /// At least this long.
        delay: Duration,
    },
    /// The target is unavailable: try again after this delay. That is not the event's fault, and no
    /// attempt.
    Unavailable {
        /// At least this long.
        delay: Duration,
    },
    /// Never try again.
    Dead,
}

impl Failure {
    /// Try again after the retry policy's delay.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self { class: FailureClass::Retry, error: error.into() }
    }

    /// Try again after `delay`, as the target asked; the attempt counts.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self { class: FailureClass::RetryAfter { delay }, error: error.into() }
    }

    /// The target is unavailable: try again after `delay`, without using up an attempt.
    pub fn unavailable(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self { class: FailureClass::Unavailable { delay }, error: error.into() }
    }

    /// Never try again: no retry can help.
    pub fn dead(error: impl Into<BoxError>) -> Self {
        Self { class: FailureClass::Dead, error: error.into() }
    }

    /// What should follow.
    pub const fn class(&self) -> FailureClass {
        self.class
    }

    /// The error behind it.
    pub fn error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.error
    }

    /// The error and its causes, as it is stored.
    pub fn report(&self) -> String {
        report(&*self.error)
    }
}

/// Causes that are told. Nobody's error has more, unless it is its own cause.
const CAUSES: usize = 64;

/// An error and its causes in one line.
pub fn report(error: &(dyn std::error::Error + 'static)) -> String {
    let mut report = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES {
        let Some(error) = cause else { break };
        let text = error.to_string();
        // Many errors already print their cause.
        if !report.ends_with(&text) {
            report.push_str(": ");
            report.push_str(&text);
        }
        cause = error.source();
    }
    report
}

// Not an `Error` itself, so that this conversion can exist.
impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        // No later attempt will read what this one could not.
        if error.is::<UnreadableJson>() { Self::dead(error) } else { Self::retry(error) }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("class", &self.class).field("error", &self.error).finish()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}
