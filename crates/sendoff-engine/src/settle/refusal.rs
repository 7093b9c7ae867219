//! What follows when the database refuses a settlement that went out by itself.

use std::time::Duration;

use sendoff_core::Attempt;
use sendoff_core::order::AfterDead;

use super::text::plain;
use crate::store::Outcome;

/// What a settlement that was refused becomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusals {
    /// How long the same is tried again before anything else is written: a constraint or a trigger may
    /// be on its way out, and what was delivered is not delivered again for it.
    pub(crate) patience: Duration,
    /// The delay before an event runs again whose success could not be recorded.
    pub(crate) delay: Duration,
    pub(crate) max_attempts: u32,
    /// What follows for the key of one that is dead.
    pub(crate) after_dead: AfterDead,
}

/// What to do with a settlement that was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterRefusal {
    /// Send this instead, now.
    Instead(Outcome),
    /// Send it again after a pause.
    Again,
    /// Nothing we could write is taken.
    Abandon,
}

/// So many refusals before something else is written, and so many before nothing is.
const INSTEAD: u32 = 4;
const ABANDON: u32 = 7;

impl Refusals {
    /// The number of the next refusal, when the first was so long ago.
    pub(crate) fn next(&self, number: u32, since: Duration) -> u32 {
        let next = number.saturating_add(1);
        if since < self.patience { next.min(INSTEAD - 1) } else { next }
    }

    /// The longest pause between two of them.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.patience / 8
    }

    /// After the refusal with this number, from 1, for this `reason`: first the same in plain
    /// characters, then again, then as a failed attempt that counts, so that an event whose end
    /// cannot be recorded is not delivered for ever. `attempt` is none where nothing ran.
    pub(crate) fn after(
        &self,
        outcome: &Outcome,
        attempt: Option<Attempt>,
        number: u32,
        reason: &str,
    ) -> AfterRefusal {
        let has_text = outcome.error().is_some();
        match (number, attempt) {
            (1, _) if has_text => AfterRefusal::Instead(outcome.clone().with_text(plain)),
            (INSTEAD, Some(attempt)) => AfterRefusal::Instead(self.counted(attempt, reason)),
            // Nothing ran: its hold may as well run out.
            (INSTEAD, None) => AfterRefusal::Abandon,
            (ABANDON.., _) => AfterRefusal::Abandon,
            _ => AfterRefusal::Again,
        }
    }

    fn counted(&self, attempt: Attempt, reason: &str) -> Outcome {
        let error = plain(&format!("the database refused to record a delivery: {reason}"));
        let attempts = attempt.number;
        if attempts >= self.max_attempts {
            Outcome::Dead { attempts, error, then: self.after_dead }
        } else {
            Outcome::Retry { delay: self.delay, attempts, error }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Refusals = Refusals {
        patience: Duration::from_secs(30),
        delay: Duration::from_secs(60),
        max_attempts: 3,
        after_dead: AfterDead::Skip,
    };

    #[test]
    fn while_there_is_patience_nothing_else_is_written() {
        let (early, late) = (Duration::from_secs(29), Duration::from_secs(30));
        let numbers: Vec<_> = [0, 1, 2, 3].map(|number| RULES.next(number, early)).into();
        assert_eq!(numbers, [1, 2, 3, 3]);
        assert_eq!((RULES.next(3, late), RULES.next(4, late)), (4, 5));
    }

    #[test]
    fn a_refused_settlement_is_cleaned_then_counted_then_abandoned() {
        let failed = Outcome::Retry { delay: Duration::ZERO, attempts: 1, error: "€".to_owned() };
        let after = |outcome: &Outcome, number| {
            RULES.after(outcome, Some(Attempt::next(0)), number, "no\u{7}€")
        };
        let clean = failed.clone().with_text(plain);
        assert_eq!(after(&failed, 1), AfterRefusal::Instead(clean));
        assert_eq!(after(&Outcome::Done, 1), AfterRefusal::Again);
        assert_eq!(after(&failed, 3), AfterRefusal::Again);
        let error = "the database refused to record a delivery: no ?".to_owned();
        let counted = Outcome::Retry { delay: RULES.delay, attempts: 1, error };
        assert_eq!(after(&Outcome::Done, 4), AfterRefusal::Instead(counted.clone()));
        assert_eq!(after(&counted, 6), AfterRefusal::Again);
        assert_eq!(after(&counted, 7), AfterRefusal::Abandon);
    }

    #[test]
    fn the_last_attempt_is_dead_and_what_never_ran_is_let_go() {
        let last = RULES.after(&Outcome::Done, Some(Attempt::next(2)), 4, "no");
        let AfterRefusal::Instead(Outcome::Dead { attempts, then, .. }) = last else {
            panic!("{last:?}")
        };
        assert_eq!((attempts, then), (3, RULES.after_dead));
        assert_eq!(RULES.after(&Outcome::Released, None, 4, "no"), AfterRefusal::Abandon);
    }
}
