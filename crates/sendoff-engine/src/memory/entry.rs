//! One row of the table in memory, and the rules for holding it.

use std::time::Duration;

use sendoff_core::limits::{DELAY, ERROR_CHARS, truncate};
use sendoff_core::order::{IN_LINE, is_in_line};
use sendoff_core::{Event, Holding, Status, Timestamp, Token, Undecodable};

use crate::store::{Birth, Born, Claimed, NewRow, Outcome, RESCUE_SLACK, Row, Waiting};

const MICROSECOND: Duration = Duration::from_micros(1);

/// A row, and what only the table knows of it.
#[derive(Debug)]
pub(super) struct Entry {
    /// The order in which rows were written.
    pub(super) seq: u64,
    /// The order of commits; the table sets it.
    pub(super) commit: u64,
    pub(super) row: Row,
    /// Whether it is to look undecodable.
    pub(super) spoiled: bool,
    stamps: Stamps,
}

/// How many holds were stamped on a row at one reading of the clock.
#[derive(Debug, Clone, Copy)]
struct Stamps {
    at: Timestamp,
    count: u32,
}

impl Entry {
    /// The row in the hands of whoever holds it by this, with its stored attempts.
    pub(super) fn claimed(&self, by: Holding, lost: bool, now: Timestamp) -> Claimed {
        Claimed {
            id: self.row.event.id(),
            by,
            attempts: self.row.attempts,
            was_due: self.row.due_at,
            lost,
            created_at: self.row.created_at,
            claimed_at: now,
            waiting: self.row.waiting,
            event: self.event(),
        }
    }

    pub(super) fn born(new: &NewRow, seq: u64, now: Timestamp) -> Result<Self, Undecodable> {
        // What comes out of a database has no delay of its own any more; nor does this.
        let event = Event::restore(new.event.as_ref().clone())?;
        let in_line = event.ordering_key().is_some() && new.event.delay().is_zero();
        let (due_at, locked_by) = match &new.birth {
            Birth::Due if in_line => (IN_LINE, None),
            Birth::Due => (now.saturating_add(new.event.delay()), None),
            Birth::Held { owner, grace } => (now.saturating_add(*grace), Some(owner.to_string())),
        };
        let count = u32::from(locked_by.is_some());
        let delayed = locked_by.is_none() && due_at > now && !is_in_line(due_at);
        let row = Row {
            event,
            status: Status::New,
            attempts: 0,
            losses: 0,
            due_at,
            created_at: now,
            done_at: None,
            last_error: None,
            locked_by,
            waiting: Waiting::default(),
            delayed_until: delayed.then_some(due_at),
        };
        Ok(Self { seq, commit: 0, row, spoiled: false, stamps: Stamps { at: now, count } })
    }

    pub(super) fn as_born(&self) -> Born {
        let token = self.row.locked_by.is_some().then(|| Token::new(self.row.due_at));
        Born { created_at: self.row.created_at, token }
    }

    /// Its number in the table.
    pub(super) fn number(&self) -> i64 {
        i64::try_from(self.seq).unwrap_or(i64::MAX)
    }

    pub(super) fn is_held_by(&self, token: Token) -> bool {
        self.row.status.is_pending() && self.row.due_at == token.due_at()
    }

    /// Whether it is pending and in line: only the holder of its key may settle it.
    pub(super) fn is_in_line(&self) -> bool {
        self.row.status.is_pending() && is_in_line(self.row.due_at)
    }

    /// Whether somebody other than `owner` was the last to hold it.
    pub(super) fn is_lost_to(&self, owner: &str) -> bool {
        self.row.locked_by.as_deref().is_some_and(|holder| holder != owner)
    }

    /// When it was created and is due once a clock that was ahead no longer counts; `None` if its due
    /// time can be explained without one.
    pub(super) fn rescued(
        &self,
        longest: Duration,
        now: Timestamp,
    ) -> Option<(Timestamp, Timestamp)> {
        let Row { created_at, due_at, ref locked_by, .. } = self.row;
        if is_in_line(due_at) {
            return (created_at > now.saturating_add(RESCUE_SLACK)).then_some((now, due_at));
        }
        if locked_by.is_some() {
            return (due_at > now.saturating_add(longest)).then_some((created_at, now));
        }
        if created_at > now.saturating_add(RESCUE_SLACK) && due_at >= created_at {
            return Some((now, now.saturating_add(due_at.since(created_at))));
        }
        (due_at > now.saturating_add(DELAY)).then_some((created_at, now))
    }

    pub(super) fn event(&self) -> Result<Event, Undecodable> {
        if self.spoiled {
            return Err(Undecodable { field: "event_type", source: None });
        }
        Ok(self.row.event.clone())
    }

    /// Pushes the due time ahead, and returns the token nobody else has for this row.
    pub(super) fn hold(&mut self, now: Timestamp, hold: Duration) -> Token {
        // A server's clock has moved on between two statements; a test's may stand still, and then a
        // row that is released and claimed again would give two holders the same token.
        let earlier = if self.stamps.at == now { self.stamps.count } else { 0 };
        let apart = MICROSECOND.saturating_mul(earlier);
        self.stamps = Stamps { at: now, count: earlier.saturating_add(1) };
        let until = now.saturating_add(hold).saturating_add(apart);
        self.row.due_at =
            if until == self.row.due_at { until.saturating_add(MICROSECOND) } else { until };
        Token::new(self.row.due_at)
    }

    /// Ends a hold. The due time always leaves the token's value, so that the same settlement sent
    /// twice finds nothing the second time.
    pub(super) fn settle(&mut self, outcome: &Outcome, now: Timestamp) {
        let row = &mut self.row;
        row.locked_by = None;
        if !outcome.is_released() {
            row.losses = 0;
        }
        match outcome {
            Outcome::Done => {
                row.waiting = Waiting::default();
                row.status = Status::Done;
                row.done_at = Some(now);
            }
            Outcome::Retry { delay, attempts, error }
            | Outcome::Wait { delay, attempts, error, .. } => {
                row.waiting = match outcome {
                    Outcome::Wait { waits_for, .. } => row.waiting.begun(*waits_for, now),
                    _ => Waiting::default(),
                };
                let due_at = now.saturating_add(*delay);
                row.due_at =
                    if due_at == row.due_at { due_at.saturating_add(MICROSECOND) } else { due_at };
                row.status = Status::Retry;
                row.attempts = *attempts;
                row.last_error = Some(truncate(error, ERROR_CHARS).to_owned());
            }
            Outcome::Dead { attempts, error, .. } => {
                row.status = Status::Dead;
                row.done_at = Some(now);
                row.attempts = *attempts;
                row.last_error = Some(truncate(error, ERROR_CHARS).to_owned());
            }
            Outcome::Released if row.event.ordering_key().is_some() => row.due_at = IN_LINE,
            Outcome::Released => {
                row.due_at = if row.due_at == now { now.saturating_sub(MICROSECOND) } else { now };
            }
            // It was visible before it was held, so this is not the token's value either.
            Outcome::Restored { due_at } => row.due_at = *due_at,
        }
    }

    /// The same of a row in line, which stays there: when it is tried again is its key's.
    pub(super) fn settle_in_line(&mut self, outcome: &Outcome, now: Timestamp) {
        let due_at = self.row.due_at;
        self.settle(outcome, now);
        if self.row.status.is_pending() {
            self.row.due_at = due_at;
        }
    }

    /// A dead row is new again, and due now: at a time that is no token of it.
    pub(super) fn requeue(&mut self, now: Timestamp) {
        let row = &mut self.row;
        row.status = Status::New;
        (row.attempts, row.losses) = (0, 0);
        (row.done_at, row.locked_by) = (None, None);
        if row.event.ordering_key().is_some() {
            row.due_at = IN_LINE;
            return;
        }
        row.due_at = if row.due_at == now { now.saturating_sub(MICROSECOND) } else { now };
    }
}
