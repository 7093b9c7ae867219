//! Telling a fact that can never be published from a target that is unavailable.

use std::time::Duration;

use crate::failure::FailureClass;
use crate::limits;
use crate::retry::{Jitter, RetryPolicy};

/// What becomes of a fact that cannot be published although its target is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Poison {
    /// It is parked, tried again later, and the pair goes on after it.
    Park,
    /// The pair stops at it as FAILED: nothing is ever published out of order.
    Fail {
        /// How long it must have failed. In order nothing after it can be tried, so only time can
        /// tell it from an outage.
        #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
        after: Duration,
    },
}

/// A run that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// What its publisher made of it.
    pub class: FailureClass,
    /// Whether the fact was published by itself. Of a batch nobody knows which it was.
    pub alone: bool,
    /// How often that fact has failed by itself, this run counted.
    pub attempts: u32,
    /// For how long nothing of the pair has been published.
    pub failing_for: Duration,
    /// Whether there are facts after it that could be tried.
    pub others: bool,
}

/// What follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Try again after so long, that fact by itself.
    Rest(Duration),
    /// Try what is after it, one by one. If any of it can be published, the target is well, and the
    /// fact is poison if it then fails once more; if none can, it is an outage.
    Probe,
    /// Park the fact.
    Park,
    /// Stop the pair.
    Fail,
}

/// What follows a failed run. An outage of the target is not poison: it uses up nothing, and ends
/// when the target is back.
pub fn after_failed_run(
    run: Run,
    poison: Poison,
    retry: &dyn RetryPolicy,
    max_attempts: u32,
    jitter: Jitter,
) -> Step {
    let rest = |delay: Duration| Step::Rest(delay.min(limits::DELAY));
    let delay = match run.class {
        FailureClass::Unavailable { delay } => return rest(delay),
        FailureClass::RetryAfter { delay } => delay,
        FailureClass::Dead if run.alone => {
            return match poison {
                Poison::Park => Step::Park,
                Poison::Fail { .. } => Step::Fail,
            };
        }
        // At once: the next run finds out which it was.
        FailureClass::Dead => return Step::Rest(Duration::ZERO),
        FailureClass::Retry => retry.delay(run.attempts.max(1), jitter),
    };
    if !run.alone || run.attempts < max_attempts {
        return rest(delay);
    }
    match poison {
        Poison::Park if run.others => Step::Probe,
        Poison::Fail { after } if run.failing_for >= after => Step::Fail,
        // Nothing waits after it, or it may be an outage yet.
        Poison::Park | Poison::Fail { .. } => rest(delay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Exponential;

    const SECOND: Duration = Duration::from_secs(1);
    const FAIL: Poison = Poison::Fail { after: Duration::from_secs(600) };

    fn run(class: FailureClass, attempts: u32) -> Run {
        Run { class, alone: true, attempts, failing_for: SECOND, others: true }
    }

    fn step(run: Run, poison: Poison) -> Step {
        after_failed_run(run, poison, &Exponential::default(), 3, Jitter::new(0.5))
    }

    #[test]
    fn a_fact_is_tried_as_often_as_it_may_before_anybody_thinks_of_poison() {
        let rest = |ms| Step::Rest(Duration::from_millis(ms));
        assert_eq!(step(run(FailureClass::Retry, 1), Poison::Park), rest(200));
        assert_eq!(step(run(FailureClass::Retry, 2), Poison::Park), rest(400));
        assert_eq!(step(run(FailureClass::Retry, 3), Poison::Park), Step::Probe);
        let told = FailureClass::RetryAfter { delay: SECOND };
        assert_eq!(step(run(told, 1), Poison::Park), Step::Rest(SECOND));
    }

    /// Where nothing is after it, nothing waits for it.
    #[test]
    fn without_others_to_tell_by_it_is_tried_again() {
        let last = Run { others: false, ..run(FailureClass::Retry, 30) };
        assert_eq!(step(last, Poison::Park), Step::Rest(Duration::from_secs(60)));
    }

    #[test]
    fn an_outage_that_says_so_uses_nothing_up() {
        let down = FailureClass::Unavailable { delay: SECOND };
        for poison in [Poison::Park, FAIL] {
            let hours = Run { failing_for: SECOND * 100_000, ..run(down, 99) };
            assert_eq!(step(hours, poison), Step::Rest(SECOND));
        }
    }

    #[test]
    fn what_can_never_be_published_is_parked_once_it_is_known_which_it_is() {
        let batch = Run { alone: false, ..run(FailureClass::Dead, 1) };
        assert_eq!(step(batch, Poison::Park), Step::Rest(Duration::ZERO));
        assert_eq!(step(run(FailureClass::Dead, 1), Poison::Park), Step::Park);
        assert_eq!(step(run(FailureClass::Dead, 1), FAIL), Step::Fail);
    }

    #[test]
    fn a_pair_that_must_stay_in_order_stops_only_when_no_outage_lasts_that_long() {
        let long = Run { failing_for: SECOND * 600, ..run(FailureClass::Retry, 3) };
        assert_eq!(step(long, FAIL), Step::Fail);
        assert!(matches!(step(run(FailureClass::Retry, 3), FAIL), Step::Rest(_)));
        assert!(matches!(step(Run { attempts: 2, ..long }, FAIL), Step::Rest(_)));
    }

    #[test]
    fn delays_are_bounded() {
        let class = FailureClass::RetryAfter { delay: Duration::MAX };
        assert_eq!(step(run(class, 1), Poison::Park), Step::Rest(limits::DELAY));
    }
}
