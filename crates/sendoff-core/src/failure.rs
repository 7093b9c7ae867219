//! Failures of a delivery and what each class of them leads to.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use crate::event::UnreadableJson;

/// Any error, as handlers and drivers give it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a delivery did not succeed, and what should follow.
///
/// Every error converts into one that is retried, so `?` works in a handler. Two kinds are known: a
/// payload that cannot be read ([`UnreadableJson`]) is dead at once, and a connection that was refused,
/// reset or timed out, anywhere among the causes, means that the target is unavailable, which uses up no
/// attempt. The constructors say more where the handler knows more.
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
    /// Whether its sink is to receive nothing more.
    disables: bool,
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
        /// At least this long; how long a target that is unavailable is left alone is for the handler's
        /// circuit to say.
        delay: Duration,
    },
    /// Never try again.
    Dead,
}

impl Failure {
    /// Try again after the retry policy's delay.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::of(FailureClass::Retry, error)
    }

    /// Try again after `delay`, as the target asked; the attempt counts.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::of(FailureClass::RetryAfter { delay }, error)
    }

    /// The target is unavailable: try again after `delay`, without using up an attempt.
    pub fn unavailable(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::of(FailureClass::Unavailable { delay }, error)
    }

    /// The target wants no more events at all, or has not taken one for too long. The event waits as for a target that is
    /// unavailable, however long, and outbox, relay or topic worker pauses the handler, or sink, as an operator does, with this
    /// error for the reason: its events wait, are not dead, and flow when it is resumed. A publisher of a journal stops as FAILED
    /// with it, until it is reset.
    pub fn disable(error: impl Into<BoxError>) -> Self {
        let class = FailureClass::Unavailable { delay: DISABLED_FOR };
        Self { disables: true, ..Self::of(class, error) }
    }

    /// Never try again: no retry can help.
    pub fn dead(error: impl Into<BoxError>) -> Self {
        Self::of(FailureClass::Dead, error)
    }

    fn of(class: FailureClass, error: impl Into<BoxError>) -> Self {
        Self { class, disables: false, error: error.into() }
    }

    /// Whether its handler, or sink, is to receive nothing more until somebody resumes it.
    pub const fn disables(&self) -> bool {
        self.disables
    }

    /// What should follow.
    pub const fn class(&self) -> FailureClass {
        self.class
    }

    /// Says that something else should follow; what [disables](Self::disable) does so no more.
    pub fn set_class(&mut self, class: FailureClass) {
        self.disables &= self.class == class;
        self.class = class;
    }

    /// The error behind it.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }

    /// The error and its causes, as it is stored.
    pub fn report(&self) -> String {
        report(&*self.error)
    }
}

/// How long a target that wants nothing more is left alone by whoever cannot pause it: somebody has to act. Who can does not
/// wait so long: what is paused waits for whoever resumes it, and for nothing else then.
const DISABLED_FOR: Duration = Duration::from_secs(60);

/// Causes that are told. Nobody's error has more, unless it is its own cause.
const CAUSES: usize = 64;

/// Whether an error is about a connection that could not be had or was lost.
fn is_about_a_connection(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    for _ in 0..=CAUSES {
        let Some(error) = cause else { return false };
        if error.downcast_ref::<io::Error>().is_some_and(|error| is_unreachable(error.kind())) {
            return true;
        }
        cause = error.source();
    }
    false
}

const fn is_unreachable(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        AddrNotAvailable, BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset,
        HostUnreachable, NetworkDown, NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof,
    };
    matches!(
        kind,
        AddrNotAvailable
            | BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
            | NotConnected
            | TimedOut
            | UnexpectedEof
    )
}

/// An error and its causes in one line.
pub fn report(error: &(dyn Error + 'static)) -> String {
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
        if error.is::<UnreadableJson>() {
            // No later attempt will read what this one could not.
            Self::dead(error)
        } else if is_about_a_connection(&*error) {
            Self::unavailable(Duration::ZERO, error)
        } else {
            Self::retry(error)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the warehouse was not told")]
    struct Told(#[source] io::Error);

    fn class(kind: io::ErrorKind) -> FailureClass {
        Failure::from(Told(io::Error::new(kind, "from the socket"))).class()
    }

    /// Holds D7: an outage of the target is not a failure of the event.
    #[test]
    fn a_lost_connection_among_the_causes_means_that_the_target_is_unavailable() {
        let unavailable = FailureClass::Unavailable { delay: Duration::ZERO };
        for kind in [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::TimedOut,
            io::ErrorKind::HostUnreachable,
        ] {
            assert_eq!(class(kind), unavailable, "{kind}");
        }
        // A file that is not there, or bytes that make no sense, are none of a connection's business.
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::InvalidData, io::ErrorKind::Other] {
            assert_eq!(class(kind), FailureClass::Retry, "{kind}");
        }
        assert_eq!(Failure::from("refused").class(), FailureClass::Retry);
    }

    /// An application's classifier has the last word.
    #[test]
    fn a_failure_that_disables_does_so_until_another_class_is_given() {
        let mut failure = Failure::disable("gone");
        let class = failure.class();
        assert_eq!(class, FailureClass::Unavailable { delay: DISABLED_FOR });
        failure.set_class(class);
        assert!(failure.disables() && !Failure::unavailable(DISABLED_FOR, "down").disables());
        failure.set_class(FailureClass::Dead);
        assert!(!failure.disables());
    }

    #[test]
    fn an_error_of_many_causes_is_looked_through_to_a_limit() {
        #[derive(Debug)]
        struct Nested(Option<Box<Self>>);
        impl fmt::Display for Nested {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nested")
            }
        }
        impl Error for Nested {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.0.as_deref().map(|cause| cause as _)
            }
        }
        let deep = (0..1_000).fold(Nested(None), |cause, _| Nested(Some(Box::new(cause))));
        assert_eq!(Failure::from(deep).class(), FailureClass::Retry);
    }
}
