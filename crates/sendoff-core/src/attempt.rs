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

/// What an event waits for without having failed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// Its target, which is unavailable.
    Target,
    /// A node that has a handler for it.
    Handler,
}

/// For how long an event has waited, by the database's clock; nothing where it has not.
///
/// Two times, since one must not be taken for the other: a node that has no handler for an event must not
/// end it because another node's target is unavailable since this morning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    /// Since its target was found unavailable for it, without a run in between that failed otherwise.
    pub for_target: Duration,
    /// Since a node first found no handler for it, and none has run it after that.
    pub for_handler: Duration,
}

/// How much an event may go through before it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBounds {
    /// Attempts that fail.
    pub max_attempts: u32,
    /// How long it may wait for a target that is unavailable.
    pub unavailable_at_most: Duration,
}

/// What follows a failed run. `attempts` is what the row stores from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Due again after `delay`, and not counted: the event is not to blame.
    Wait {
        /// From the settlement on, by the database's clock.
        delay: Duration,
        /// The stored count.
        attempts: u32,
    },
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

/// What follows a failure of `class`, of an event that has waited for its target for so long.
pub fn after_failure(
    attempt: Attempt,
    class: FailureClass,
    waited: Duration,
    policy: &dyn RetryPolicy,
    bounds: RetryBounds,
    jitter: Jitter,
) -> Next {
    let RetryBounds { max_attempts, unavailable_at_most } = bounds;
    let delay = match class {
        FailureClass::Dead => return Next::Dead { attempts: attempt.number },
        FailureClass::Unavailable { .. } if waited >= unavailable_at_most => {
            return Next::Dead { attempts: attempt.uncounted() };
        }
        FailureClass::Unavailable { delay } => {
            return Next::Wait { delay: delay.min(limits::DELAY), attempts: attempt.uncounted() };
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Unroutable {
    /// Dead at once, for a table that only one program works on.
    Dead,
    /// Like a failed attempt, with the retry policy's delay.
    Retry,
    /// Put off without counting: in a rolling deploy, or with two programs on one table, a node must not
    /// kill what only another one knows. The default: by a second each time, for 15 minutes. A node that
    /// has no handler leaves such events to others in between, and looks at them about once a minute.
    Defer {
        /// How long to put it off each time.
        #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
        delay: Duration,
        /// How long it may wait, since a node first found no handler for it, before it is dead.
        #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
        at_most: Duration,
    },
}

impl Default for Unroutable {
    fn default() -> Self {
        Self::Defer { delay: Duration::from_secs(1), at_most: Duration::from_secs(15 * 60) }
    }
}

/// The class of failure it is when there is no handler, and for how long there was none.
pub fn after_unroutable(unroutable: Unroutable, waited: Duration) -> FailureClass {
    match unroutable {
        Unroutable::Retry => FailureClass::Retry,
        Unroutable::Defer { delay, at_most } if waited < at_most => {
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

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const BOUNDS: RetryBounds = RetryBounds { max_attempts: 3, unavailable_at_most: DAY };

    fn follow(attempt: Attempt, class: FailureClass) -> Next {
        after_waiting(attempt, class, Duration::ZERO)
    }

    fn after_waiting(attempt: Attempt, class: FailureClass, waited: Duration) -> Next {
        let jitter = Jitter::new(MIDDLE);
        after_failure(attempt, class, waited, &Exponential::default(), BOUNDS, jitter)
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
        assert_eq!(follow(Attempt::next(9), outage), Next::Wait { delay, attempts: 9 });
        let told = FailureClass::RetryAfter { delay };
        assert_eq!(follow(Attempt::next(0), told), Next::Retry { delay, attempts: 1 });
        assert_eq!(follow(Attempt::next(2), told), Next::Dead { attempts: 3 });
    }

    /// Holds D7: waiting for a target uses nothing up, and has an end.
    #[test]
    fn an_event_waits_for_its_target_for_a_time_that_counts_from_when_it_began() {
        let (outage, delay) = (FailureClass::Unavailable { delay: DAY }, DAY);
        let second = Duration::from_secs(1);
        let after = |waited| after_waiting(Attempt::next(1), outage, waited);
        assert_eq!(after(DAY - second), Next::Wait { delay, attempts: 1 });
        assert_eq!(after(DAY), Next::Dead { attempts: 1 });
        let own = after_waiting(Attempt::next(1), FailureClass::Retry, DAY * 9);
        assert!(matches!(own, Next::Retry { attempts: 2, .. }), "it failed by itself: {own:?}");
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
        let decide = |policy, waited| {
            follow(Attempt::next(0), after_unroutable(policy, Duration::from_secs(waited)))
        };
        let delay = Duration::from_secs(5);
        let defer = Unroutable::Defer { delay, at_most: Duration::from_secs(60) };
        assert_eq!(decide(Unroutable::Dead, 0), Next::Dead { attempts: 1 });
        assert_eq!(
            decide(Unroutable::Retry, 0),
            Next::Retry { delay: Duration::from_millis(200), attempts: 1 }
        );
        assert_eq!(decide(defer, 0), Next::Wait { delay, attempts: 0 });
        assert_eq!(decide(defer, 59), Next::Wait { delay, attempts: 0 });
        assert_eq!(decide(defer, 60), Next::Dead { attempts: 1 });
        let delay = Duration::from_secs(1);
        assert_eq!(decide(Unroutable::default(), 899), Next::Wait { delay, attempts: 0 });
        assert_eq!(decide(Unroutable::default(), 900), Next::Dead { attempts: 1 });
    }
}
