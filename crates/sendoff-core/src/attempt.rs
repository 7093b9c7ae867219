//! What follows a run: the decisions behind retries and dead letters.

use std::time::Duration;

use crate::failure::FailureClass;
use crate::limits;
use crate::retry::{Jitter, RetryPolicy};

/// The run of a delivery that is about to start, or was just made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// Whether the stored count already includes it. The claim counts first where the last holder
    /// vanished: if this run kills the process too, nobody is left to count it.
    pub counted: bool,
}

impl Attempt {
    /// The next run of a row that stores `attempts`.
    pub const fn next(attempts: u32) -> Self {
        Self { number: attempts.saturating_add(1), counted: false }
    }

    /// The run of a row whose last holder vanished, and whose claim made it store `attempts`.
    pub const fn after_loss(attempts: u32) -> Self {
        Self { number: attempts, counted: true }
    }

    /// What is stored if this run must not count.
    pub const fn uncounted(self) -> u32 {
        if self.counted { self.number } else { self.number - 1 }
    }

    /// Whether so many processes vanished with this event that it may not run again.
    ///
    /// Also where the one who counted the last of them gave it back, or never knew that he had it.
    pub const fn is_exhausted(self, max_attempts: u32) -> bool {
        self.uncounted() > max_attempts
    }
}

/// What follows a failed run. `attempts` is what the row stores from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Due again after `delay`.
    Retry {
        /// From the settlement on, by the database's clock.
        delay: Duration,
        /// The stored count.
        attempts: u32,
    },
    /// Terminal.
    Dead {
        /// The stored count.
        attempts: u32,
    },
}

/// What follows a failure of `class`.
pub fn after_failure(
    attempt: Attempt,
    class: FailureClass,
    policy: &dyn RetryPolicy,
    max_attempts: u32,
    jitter: Jitter,
) -> Next {
    let delay = match class {
        FailureClass::Dead => return Next::Dead { attempts: attempt.number },
        FailureClass::Unavailable { delay } => {
            return Next::Retry { delay: delay.min(limits::DELAY), attempts: attempt.uncounted() };
        }
        FailureClass::RetryAfter { delay } => delay,
        FailureClass::Retry => policy.delay(attempt.number, jitter),
    };
    if attempt.number >= max_attempts {
        Next::Dead { attempts: attempt.number }
    } else {
        Next::Retry { delay: delay.min(limits::DELAY), attempts: attempt.number }
    }
}

/// What to do with an event no handler is registered for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Unroutable {
    /// Dead at once: the library's default, since its handlers are known when it starts.
    #[default]
    Dead,
    /// Like a failed attempt, with the retry policy's delay.
    Retry,
    /// Put off without counting, for as long as the event is young: in a rolling deploy an old node
    /// must not kill a type that only the new one knows.
    Defer {
        /// How long to put it off each time.
        #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
        delay: Duration,
        /// The age after which it is dead.
        #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
        at_most: Duration,
    },
}

/// The class of failure it is when there is no handler. `age` is by the database's clock.
pub fn after_unroutable(unroutable: Unroutable, age: Duration) -> FailureClass {
    match unroutable {
        Unroutable::Retry => FailureClass::Retry,
        Unroutable::Defer { delay, at_most } if age < at_most => {
            FailureClass::Unavailable { delay }
        }
        Unroutable::Dead | Unroutable::Defer { .. } => FailureClass::Dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Exponential;

    const MIDDLE: f64 = 0.5;

    fn follow(attempt: Attempt, class: FailureClass) -> Next {
        after_failure(attempt, class, &Exponential::default(), 3, Jitter::new(MIDDLE))
    }

    /// Holds D7.
    #[test]
    fn a_failure_is_retried_until_its_attempts_are_used() {
        let ms = Duration::from_millis;
        assert_eq!(
            follow(Attempt::next(0), FailureClass::Retry),
            Next::Retry { delay: ms(200), attempts: 1 }
        );
        assert_eq!(
            follow(Attempt::next(1), FailureClass::Retry),
            Next::Retry { delay: ms(400), attempts: 2 }
        );
        assert_eq!(follow(Attempt::next(2), FailureClass::Retry), Next::Dead { attempts: 3 });
    }

    #[test]
    fn a_dead_class_is_final_and_an_outage_burns_nothing() {
        let delay = Duration::from_secs(7);
        assert_eq!(follow(Attempt::next(0), FailureClass::Dead), Next::Dead { attempts: 1 });
        let outage = FailureClass::Unavailable { delay };
        assert_eq!(follow(Attempt::next(9), outage), Next::Retry { delay, attempts: 9 });
        let told = FailureClass::RetryAfter { delay };
        assert_eq!(follow(Attempt::next(0), told), Next::Retry { delay, attempts: 1 });
        assert_eq!(follow(Attempt::next(2), told), Next::Dead { attempts: 3 });
    }

    #[test]
    fn a_run_counted_by_the_claim_is_not_counted_again() {
        let again = Attempt::after_loss(2);
        assert_eq!(
            follow(again, FailureClass::Retry),
            Next::Retry { delay: Duration::from_millis(400), attempts: 2 }
        );
        assert_eq!(again.uncounted(), 2);
    }

    #[test]
    fn an_event_that_was_lost_too_often_may_not_run_again() {
        assert!(!Attempt::after_loss(3).is_exhausted(3));
        assert!(Attempt::after_loss(4).is_exhausted(3));
        assert!(!Attempt::next(3).is_exhausted(3), "its last holder was counted, and gave it back");
        assert!(Attempt::next(4).is_exhausted(3));
    }

    #[test]
    fn delays_are_bounded() {
        let class = FailureClass::RetryAfter { delay: Duration::MAX };
        assert_eq!(
            follow(Attempt::next(0), class),
            Next::Retry { delay: limits::DELAY, attempts: 1 }
        );
    }

    /// Holds D6.
    #[test]
    fn an_unroutable_event_is_dead_retried_or_deferred_by_policy() {
        let decide = |policy, age| {
            follow(Attempt::next(0), after_unroutable(policy, Duration::from_secs(age)))
        };
        let delay = Duration::from_secs(5);
        let defer = Unroutable::Defer { delay, at_most: Duration::from_secs(60) };
        assert_eq!(decide(Unroutable::Dead, 0), Next::Dead { attempts: 1 });
        assert_eq!(
            decide(Unroutable::Retry, 0),
            Next::Retry { delay: Duration::from_millis(200), attempts: 1 }
        );
        assert_eq!(decide(defer, 59), Next::Retry { delay, attempts: 0 });
        assert_eq!(decide(defer, 60), Next::Dead { attempts: 1 });
    }
}
