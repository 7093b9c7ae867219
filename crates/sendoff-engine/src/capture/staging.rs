//! What every kind of guard shares: the events of a transaction that is still open, and what a server answered to
//! their inserts, until the COMMIT after them is answered too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{BoxError, Event, EventId, IntoEvent, Validation};
use tracing::error;

use super::{CommitError, CommitMark, WriteError};
use crate::operate::{Observer, Waiters};
use crate::sink::{Traces, shielded};
use crate::source::{Deadline, Handover, HotRow, Stamp};
use crate::store::{Birth, Born, NewRow};

/// The writing side of an outbox: checks events, makes rows of them, and hands over what committed.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) validation: Validation,
    /// Where committed events go; nothing where no dispatcher runs in this process.
    pub(crate) handover: Option<Arc<Handover>>,
    pub(crate) owner: Arc<str>,
    pub(crate) hot_grace: Duration,
    pub(crate) observer: Observer,
    /// Who waits until events are over.
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) traces: Traces,
}

impl Writer {
    /// What is certain of rows inserted from now on.
    pub(crate) fn stamp(&self) -> Stamp {
        let epoch = self.handover.as_ref().map_or(0, |handover| handover.store.epoch());
        Stamp { until: Deadline::after(self.hot_grace), epoch }
    }

    pub(crate) fn check(&self, event: impl IntoEvent) -> Result<Event, WriteError> {
        let event = event.into_event()?;
        let event = match self.traces.current() {
            Some(trace) => event.traced(&trace),
            None => event,
        };
        event.validate(self.validation)?;
        Ok(event)
    }

    pub(crate) fn rows(&self, events: Vec<Event>) -> Vec<NewRow> {
        let hot = self.handover.as_ref().is_some_and(|handover| handover.lanes.is_open());
        let is_for_the_table = |event: &Event| {
            self.handover.as_ref().is_some_and(|handover| handover.is_for_the_table(event))
        };
        let birth = |event: &Event| {
            if hot && event.delay().is_zero() && !is_for_the_table(event) {
                Birth::Held { owner: self.owner.clone(), grace: self.hot_grace }
            } else {
                Birth::Due
            }
        };
        events.into_iter().map(|event| NewRow { birth: birth(&event), event }).collect()
    }

    /// The rows that can take the hot lane. `stamp` was made before their INSERT was sent.
    pub(crate) fn hot_rows(&self, rows: Vec<NewRow>, born: &[Born], stamp: Stamp) -> Vec<HotRow> {
        let Stamp { until, epoch } = stamp;
        let hot = |(row, born): (NewRow, &Born)| {
            let token = born.token?;
            let NewRow { event, .. } = row;
            Some(HotRow { event, created_at: born.created_at, token, until, epoch })
        };
        rows.into_iter().zip(born).filter_map(hot).collect()
    }

    /// Counts what was written.
    pub(crate) fn count(&self, rows: &[NewRow]) {
        if !rows.is_empty() {
            self.observer.tell(|metrics| metrics.written(rows.len() as u64));
        }
    }

    /// The transaction committed, and that is proved.
    pub(crate) fn committed(&self, rows: Vec<NewRow>, born: &[Born], stamp: Stamp) {
        self.count(&rows);
        self.waiters.committed(rows.iter().map(|row| row.event.id()));
        let Some(handover) = &self.handover else { return };
        ring_for_delayed(handover, &rows);
        for row in self.hot_rows(rows, born, stamp) {
            handover.offer_hot(row);
        }
    }
}

pub(crate) fn ring_for_delayed(handover: &Handover, rows: &[NewRow]) {
    // What is paused is claimed when it is resumed, and not looked for in vain before.
    let is_looked_for =
        |row: &&NewRow| row.birth == Birth::Due && !handover.is_for_the_table(&row.event);
    for row in rows.iter().filter(is_looked_for) {
        handover.alarm.ring_after(row.event.delay());
    }
}

type Hook = Box<dyn FnOnce() + Send>;

/// Events and hooks waiting for the end of their transaction.
#[derive(Default)]
pub struct Staging {
    events: Vec<Event>,
    after_commit: Vec<Hook>,
    after_rollback: Vec<Hook>,
    /// A savepoint's end was cut off: nobody knows which of its changes are there.
    torn: bool,
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging").field("events", &self.events.len()).finish_non_exhaustive()
    }
}

/// Where a savepoint began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    events: usize,
    after_commit: usize,
    after_rollback: usize,
}

impl Staging {
    pub(crate) fn stage(&mut self, event: Event) -> EventId {
        let id = event.id();
        self.events.push(event);
        id
    }

    pub(crate) fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.after_commit.push(Box::new(hook));
    }

    pub(crate) fn after_rollback(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.after_rollback.push(Box::new(hook));
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            events: self.events.len(),
            after_commit: self.after_commit.len(),
            after_rollback: self.after_rollback.len(),
        }
    }

    /// The end of a savepoint was cut off.
    pub(crate) fn tear(&mut self) {
        self.torn = true;
    }

    pub(crate) fn is_torn(&self) -> bool {
        self.torn
    }

    /// The savepoint was rolled back: what was staged since never happened.
    pub(crate) fn rolled_back_to(&mut self, mark: Mark) {
        self.events.truncate(mark.events);
        self.after_commit.truncate(mark.after_commit);
        run_all(self.after_rollback.split_off(mark.after_rollback));
    }

    /// The transaction committed.
    pub(crate) fn committed(&mut self) {
        self.after_rollback.clear();
        run_all(std::mem::take(&mut self.after_commit));
    }

    /// The transaction was rolled back.
    pub(crate) fn rolled_back(&mut self) {
        self.rolled_back_to(Mark { events: 0, after_commit: 0, after_rollback: 0 });
    }

    /// Nobody knows how it ended, so no hook may claim to.
    pub(crate) fn unknown(&mut self) {
        *self = Self::default();
    }
}

fn run_all(hooks: Vec<Hook>) {
    for hook in hooks {
        // The transaction is over: a hook that panics must not look like a failed commit.
        if let Err(panic) = shielded(hook) {
            error!(error = panic.report(), "a transaction hook panicked");
        }
    }
}

/// The server's answer to what was inserted last before a COMMIT.
#[derive(Debug, Default)]
pub struct Inserted {
    /// What it made of each row.
    pub born: Vec<Born>,
    /// What it can be asked for later, should COMMIT not be answered: the transaction's number, or the
    /// session's. `None` where nothing was inserted.
    pub xid: Option<u64>,
}

impl Inserted {
    /// What the answer to the COMMIT means. Only some errors are known to mean that it was rolled back: a session
    /// that is being ended may have committed before it could say so.
    pub fn committed<E: Into<BoxError>>(
        self,
        unknown: CommitMark,
        answer: Result<(), E>,
        is_rolled_back: impl FnOnce(&E) -> bool,
    ) -> Result<Vec<Born>, CommitError> {
        let Err(error) = answer else { return Ok(self.born) };
        if is_rolled_back(&error) {
            return Err(CommitError::RolledBack(error.into()));
        }
        let mark = match self.xid {
            Some(xid) => unknown.with_xid(xid),
            None => unknown,
        };
        Err(CommitError::Unknown { mark, source: error.into() })
    }
}
