use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::Timestamp;
use tokio::time::Instant;

use super::floor::Floor;
use crate::appetite::{Appetite, Portion};
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
    /// Asks for `most` at once, with a look from the beginning every so often: after an interval, or
    /// later where such looks are slow.
    pub(crate) fn new(most: Portion, interval: Duration, limit: Duration) -> Self {
        let floor = Floor::new(interval, Instant::now());
        Self { state: Mutex::new((Appetite::up_to(most), floor)), limit }
    }

    /// How much to ask for now.
    pub(crate) fn portion(&self) -> Portion {
        lock(&self.state).0.portion()
    }

    /// What to ask for now, by somebody who does so at once: nobody else looks from the beginning
    /// meanwhile.
    pub(crate) fn next(&self) -> Ask {
        let began = Instant::now();
        let (appetite, floor) = &mut *lock(&self.state);
        Ask { portion: appetite.portion(), from: floor.next(began), began }
    }

    /// The same, with nothing left out.
    pub(crate) fn next_whole(&self) -> Ask {
        Ask { portion: self.portion(), from: None, began: Instant::now() }
    }

    /// These rows came. Says whether there may be more.
    pub(crate) fn answered(&self, ask: &Ask, rows: &[Claimed]) -> bool {
        let now = Instant::now();
        let took = now.saturating_duration_since(ask.began);
        let full = ask.portion.is_filled_by(rows);
        let (appetite, floor) = &mut *lock(&self.state);
        if full {
            appetite.filled(took, self.limit);
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
            appetite.timed_out(ask.portion);
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
