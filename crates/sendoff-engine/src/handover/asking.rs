use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::Timestamp;
use tokio::time::Instant;

use super::appetite::{Appetite, Portion};
use super::floor::Floor;
use crate::lock::lock;
use crate::store::{Claimed, StoreError};

/// How to ask for rows: how many at once and from where, by how the last answers came.
#[derive(Debug)]
pub(crate) struct Asking {
    state: Mutex<(Appetite, Floor)>,
    /// How long an answer may take.
    limit: Duration,
}

/// What to ask for now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) portion: Portion,
    /// Only rows due from then on; all of them if there is none.
    pub(crate) from: Option<Timestamp>,
    began: Instant,
}

impl Ask {
    /// Another portion of the same, from now on.
    pub(crate) fn with(self, portion: Portion) -> Self {
        Self { portion, began: Instant::now(), ..self }
    }
}

impl Asking {
    /// Asks for `most` at once, with a look from the beginning at least once an interval.
    pub(crate) fn new(most: Portion, interval: Duration, limit: Duration) -> Self {
        let floor = Floor::new(interval, Instant::now());
        Self { state: Mutex::new((Appetite::new(most), floor)), limit }
    }

    /// What to ask for now.
    pub(crate) fn next(&self) -> Ask {
        let began = Instant::now();
        let state = lock(&self.state);
        Ask { portion: state.0.portion(), from: state.1.next(began), began }
    }

    /// The same, with nothing left out.
    pub(crate) fn next_whole(&self) -> Ask {
        Ask { from: None, ..self.next() }
    }

    /// These rows came. Says whether there may be more.
    pub(crate) fn answered(&self, ask: &Ask, rows: &[Claimed]) -> bool {
        let now = Instant::now();
        let took = now.saturating_duration_since(ask.began);
        let full = ask.portion.is_filled_by(rows);
        let (appetite, floor) = &mut *lock(&self.state);
        if full {
            appetite.was_answered(took, self.limit);
        }
        floor.came_to(rows.iter().map(|row| row.was_due).max());
        if ask.from.is_none() {
            floor.looked_whole(took, now);
        }
        full
    }

    /// No rows came.
    pub(crate) fn failed(&self, ask: &Ask, error: &StoreError) {
        let now = Instant::now();
        let (appetite, floor) = &mut *lock(&self.state);
        if matches!(error, StoreError::Timeout) {
            appetite.was_too_much(ask.portion);
        }
        if ask.from.is_none() {
            floor.looked_whole(now.saturating_duration_since(ask.began), now);
        }
    }

    /// Rows of ours are due again as they were before, and nothing may hide them.
    pub(crate) fn put_back(&self) {
        lock(&self.state).1.forget();
    }

    /// How long until rows that `ask` left out can be asked for; `None` if it left none out.
    pub(crate) fn hidden_for(&self, ask: &Ask) -> Option<Duration> {
        ask.from.map(|_| lock(&self.state).1.whole_in(Instant::now()))
    }
}
