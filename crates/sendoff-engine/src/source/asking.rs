//! How many rows a claim asks for and where it begins, learned from the last answers.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Timestamp, report};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use super::floor::{Floor, Start};
use crate::appetite::{Appetite, Portion};
use crate::lock::lock;
use crate::store::{Claimed, InspectStore, StoreError, within};

/// How long the beginning is looked for. A statement that takes so long steps over hundreds of millions
/// of rows.
const SEARCH: Duration = Duration::from_secs(600);

/// How to ask for rows: how many at once and from where, by how the last answers came.
pub(crate) struct Asking {
    state: Arc<Mutex<(Appetite, Floor)>>,
    /// How long an answer may take.
    limit: Duration,
    store: Arc<dyn InspectStore>,
    /// The search for the beginning, if one is under way.
    search: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("state", &self.state).finish_non_exhaustive()
    }
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
    /// So much of all there is.
    pub(crate) fn whole(portion: Portion) -> Self {
        Self { portion, from: None, began: Instant::now() }
    }

    /// Another portion of the same, from now on.
    pub(crate) fn with(self, portion: Portion) -> Self {
        Self { portion, began: Instant::now(), ..self }
    }
}

impl Asking {
    /// Asks for `most` at once, with a look from the beginning every so often: after an interval, or
    /// later where such looks are slow.
    pub(crate) fn new(
        store: Arc<dyn InspectStore>,
        most: Portion,
        interval: Duration,
        limit: Duration,
    ) -> Self {
        let floor = Floor::new(interval, Instant::now());
        let state = Arc::new(Mutex::new((Appetite::up_to(most), floor)));
        Self { state, limit, store, search: Mutex::default() }
    }

    /// How much to ask for now.
    pub(crate) fn portion(&self) -> Portion {
        lock(&self.state).0.portion()
    }

    /// What to ask for now, by somebody who does so at once: nobody else looks from the beginning
    /// meanwhile.
    pub(crate) fn next(&self) -> Ask {
        let start = lock(&self.state).1.next(Instant::now());
        self.from(start)
    }

    /// The same, with nothing left out.
    pub(crate) fn next_whole(&self) -> Ask {
        let start = lock(&self.state).1.next_whole(Instant::now());
        self.from(start)
    }

    fn from(&self, start: Start) -> Ask {
        let from = match start {
            Start::Beginning => None,
            Start::From(from) => Some(from),
            Start::Unknown(until_known) => {
                self.search();
                until_known
            }
        };
        Ask { from, ..Ask::whole(self.portion()) }
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
        floor.came_to(rows.iter().map(|row| row.was_due).max(), full);
        if ask.from.is_none() {
            floor.looked_whole(took, now);
        }
        full
    }

    /// No rows came.
    pub(crate) fn failed(&self, ask: &Ask, error: &StoreError) {
        let now = Instant::now();
        let late = matches!(error, StoreError::Timeout);
        {
            let (appetite, floor) = &mut *lock(&self.state);
            if late {
                appetite.timed_out(ask.portion);
            }
            if ask.from.is_none() {
                floor.looked_whole(now.saturating_duration_since(ask.began), now);
                if late {
                    floor.gave_up();
                }
            }
        }
        if late {
            // Perhaps there is too much to walk over, between this look and the next row.
            self.search();
        }
    }

    /// Asks where pending rows begin, unless that is asked already. Goes on while rows are asked for.
    fn search(&self) {
        let mut search = lock(&self.search);
        while search.try_join_next().is_some() {}
        if !search.is_empty() {
            return;
        }
        let (store, state, limit) = (self.store.clone(), self.state.clone(), self.limit);
        search.spawn(async move {
            let began = Instant::now();
            match within(SEARCH, store.first_due()).await {
                Ok(beginning) => {
                    let now = Instant::now();
                    let took = now.saturating_duration_since(began);
                    lock(&state).1.begins_at(beginning, took, limit, now);
                }
                Err(error) => {
                    warn!(error = report(&error), "could not find out where pending rows begin");
                }
            }
        });
    }

    /// Rows of ours are due again as they were before, and nothing may hide them.
    pub(crate) fn put_back(&self) {
        lock(&self.state).1.forget(Instant::now());
    }

    /// How long until rows that `ask` left out can be asked for; `None` if it left none out.
    pub(crate) fn hidden_for(&self, ask: &Ask) -> Option<Duration> {
        ask.from.map(|_| lock(&self.state).1.whole_in(Instant::now()))
    }
}
