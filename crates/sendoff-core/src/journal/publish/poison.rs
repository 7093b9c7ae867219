//! Telling a fact that can never be published from a target that is unavailable.

use std::time::Duration;

use crate::failure::FailureClass;
use crate::limits;
use crate::retry::{Jitter, RetryPolicy};

/// What becomes of a fact that cannot be published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Poison {
    /// The pair waits at it and tries it again, for ever: everything is published in the exact order of
    /// positions. The log and `doctor` say where it waits, and why.
    #[default]
    Wait,
    /// The same, but the pair stops as FAILED once the fact has failed for so long, or at once where its
    /// publisher says that no retry can help. A target that says that it is unavailable stops nothing.
    Fail {
        /// How long. In order nothing after it can be tried, so only time can tell it from an outage.
        #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
        after: Duration,
    },
    /// It is parked, tried again later, and the pair goes on after it: the order of that fact is given up.
    /// Only if its publisher says that no retry can help, or if a later fact could be published right
    /// after this one had failed again: an outage is not poison.
    Park,
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
    /// How long its target is left alone by now, where it is unavailable.
    pub pause: Duration,
    /// Whether there are facts after it that could be tried.
    pub others: bool,
    /// What trying others has told so far.
    pub probes: Probes,
}

/// Later facts that were tried while one fails, and none of which could be published either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Probes {
    /// How many.
    pub made: u32,
    /// How often the fact itself has failed since the last of them.
    pub failed_since: u32,
}

impl Probes {
    /// The fact itself failed once more.
    pub fn failed(&mut self) {
        self.failed_since = self.failed_since.saturating_add(1);
    }

    /// A later fact was tried, and failed as well.
    pub fn made(&mut self) {
        *self = Self { made: self.made.saturating_add(1), failed_since: 0 };
    }

    /// Whether another one may be tried. Each that fails makes an outage likelier, and the moment in
    /// which a target comes back may fall between the two tries: so ever more rarely, down to every
    /// eighth time.
    fn may_be_made(self) -> bool {
        self.failed_since >= 1 << self.made.min(4).saturating_sub(1)
    }
}

/// How a pair goes on after failures.
#[derive(Debug, Clone, Copy)]
pub struct AfterFailure<'a> {
    /// What becomes of a fact that cannot be published.
    pub poison: Poison,
    /// The pauses between tries of a fact.
    pub retry: &'a dyn RetryPolicy,
    /// The longest of them, whatever the policy says: so soon an outage that is over is noticed.
    pub longest_pause: Duration,
    /// How often a fact must have failed before others are tried.
    pub max_attempts: u32,
}

/// What follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Try again after so long, that fact by itself.
    Rest(Duration),
    /// Try one later fact at once. If it can be published, the target is well, and the fact is poison if
    /// it then fails once more; if not, it is an outage as far as anybody knows.
    Probe,
    /// Park the fact.
    Park,
    /// Stop the pair.
    Fail,
}

impl AfterFailure<'_> {
    /// What follows a failed run. An outage of the target is not poison: it uses up nothing, and ends
    /// when the target is back.
    pub fn step(&self, run: Run, jitter: Jitter) -> Step {
        let rest = |delay: Duration| Step::Rest(delay.min(limits::DELAY));
        let policy = || self.retry.delay(run.attempts.max(1), jitter).min(self.longest_pause);
        let delay = match run.class {
            FailureClass::Unavailable { delay } => return rest(delay.max(run.pause)),
            // At once: the next run finds out which it was.
            FailureClass::Dead if !run.alone => return Step::Rest(Duration::ZERO),
            FailureClass::Dead => {
                return match self.poison {
                    Poison::Wait => rest(policy()),
                    Poison::Fail { .. } => Step::Fail,
                    Poison::Park => Step::Park,
                };
            }
            FailureClass::RetryAfter { delay } => delay,
            FailureClass::Retry => policy(),
        };
        match self.poison {
            Poison::Fail { after } if run.alone && run.failing_for >= after => Step::Fail,
            Poison::Park
                if run.alone
                    && run.others
                    && run.attempts >= self.max_attempts
                    && run.probes.may_be_made() =>
            {
                Step::Probe
            }
            // It may be an outage yet, or nothing waits after it, or order is worth more than that.
            Poison::Wait | Poison::Fail { .. } | Poison::Park => rest(delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Exponential;

    const SECOND: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(15);
    const FAIL: Poison = Poison::Fail { after: Duration::from_secs(600) };
    const ALL: [Poison; 3] = [Poison::Wait, FAIL, Poison::Park];

    fn run(class: FailureClass, attempts: u32) -> Run {
        let probes = Probes { made: 0, failed_since: 1 };
        let (failing_for, pause) = (SECOND, SECOND);
        Run { class, alone: true, attempts, failing_for, pause, others: true, probes }
    }

    fn step(run: Run, poison: Poison) -> Step {
        let retry = &Exponential::default();
        AfterFailure { poison, retry, longest_pause: LONGEST, max_attempts: 3 }
            .step(run, Jitter::new(0.5))
    }

    /// Holds J6.
    #[test]
    fn unless_it_is_asked_for_a_pair_waits_at_a_fact_for_ever() {
        assert_eq!(Poison::default(), Poison::Wait);
        for class in [FailureClass::Retry, FailureClass::Dead] {
            let years = Run { failing_for: SECOND * 100_000_000, ..run(class, u32::MAX) };
            assert_eq!(step(years, Poison::Wait), Step::Rest(LONGEST), "{class:?}");
        }
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
        assert_eq!(step(last, Poison::Park), Step::Rest(LONGEST));
    }

    /// Holds J6: whatever the policies, an outage that is over is noticed within 15 s.
    #[test]
    fn no_pause_is_longer_than_the_longest() {
        for poison in ALL {
            for attempts in [1, 2, 9, 10, 11, 1_000] {
                let tried = Run { others: false, ..run(FailureClass::Retry, attempts) };
                let next = step(tried, poison);
                assert!(matches!(next, Step::Rest(delay) if delay <= LONGEST), "{next:?}");
            }
        }
    }

    #[test]
    fn an_outage_that_says_so_uses_nothing_up() {
        let down = FailureClass::Unavailable { delay: Duration::ZERO };
        for poison in ALL {
            let hours = Run { failing_for: SECOND * 100_000, ..run(down, 99) };
            assert_eq!(step(hours, poison), Step::Rest(SECOND));
            let asked = FailureClass::Unavailable { delay: SECOND * 60 };
            assert_eq!(step(run(asked, 1), poison), Step::Rest(SECOND * 60));
        }
    }

    #[test]
    fn what_can_never_be_published_is_parked_once_it_is_known_which_it_is() {
        for poison in ALL {
            let batch = Run { alone: false, ..run(FailureClass::Dead, 1) };
            assert_eq!(step(batch, poison), Step::Rest(Duration::ZERO));
        }
        assert_eq!(step(run(FailureClass::Dead, 1), Poison::Park), Step::Park);
        assert_eq!(step(run(FailureClass::Dead, 1), FAIL), Step::Fail);
    }

    #[test]
    fn a_pair_that_may_fail_stops_only_when_no_outage_lasts_that_long() {
        let long = Run { failing_for: SECOND * 600, ..run(FailureClass::Retry, 3) };
        assert_eq!(step(long, FAIL), Step::Fail);
        let shorter = Run { failing_for: SECOND * 600 - Duration::from_nanos(1), ..long };
        assert!(matches!(step(shorter, FAIL), Step::Rest(_)));
        assert!(matches!(step(Run { alone: false, ..long }, FAIL), Step::Rest(_)));
    }

    #[test]
    fn others_are_tried_ever_more_rarely_while_none_can_be_published() {
        let (mut probes, mut made) = (Probes::default(), Vec::new());
        for round in 1..=40 {
            probes.failed();
            let next = step(Run { probes, ..run(FailureClass::Retry, 3) }, Poison::Park);
            if next == Step::Probe {
                made.push(round);
                probes.made();
            }
        }
        assert_eq!(made, [1, 2, 4, 8, 16, 24, 32, 40]);
    }

    #[test]
    fn delays_are_bounded() {
        let class = FailureClass::RetryAfter { delay: Duration::MAX };
        assert_eq!(step(run(class, 1), Poison::Park), Step::Rest(limits::DELAY));
    }
}
