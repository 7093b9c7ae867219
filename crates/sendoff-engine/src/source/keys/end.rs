//! The end of a key's run on its way into the database.

use std::sync::Arc;

use sendoff_core::EventId;
use sendoff_core::order::Ending;

use crate::settle::{AfterRefusal, Completion, Refusals, Trouble, Unit, storable};
use crate::source::Deadline;
use crate::store::{HeldKey, Outcome, RunEnd};

/// What became of events of one key, and of the key.
#[derive(Debug)]
pub(crate) struct KeyEnd {
    pub(crate) held: HeldKey,
    pub(crate) rows: Vec<Completion>,
    pub(crate) ending: Ending,
    /// Until when the hold was certain.
    pub(super) until: Deadline,
    /// How much was read with the hold, where this ends it.
    pub(super) bytes: usize,
    /// Tells two ends of one key apart.
    pub(super) number: u64,
    trouble: Trouble,
}

impl KeyEnd {
    pub(crate) fn new(
        held: HeldKey,
        mut rows: Vec<Completion>,
        ending: Ending,
        until: Deadline,
    ) -> Self {
        for Completion { outcome, .. } in &mut rows {
            let said = std::mem::replace(outcome, Outcome::Done);
            *outcome = said.with_text(storable);
        }
        Self { held, rows, ending, until, bytes: 0, number: 0, trouble: Trouble::default() }
    }

    /// As the database is told.
    pub(crate) fn run_end(&self) -> RunEnd {
        let row = |completion: &Completion| (completion.ticket.id(), completion.outcome.clone());
        RunEnd {
            held: self.held.clone(),
            rows: self.rows.iter().map(row).collect(),
            ending: self.ending,
        }
    }
}

impl Unit for KeyEnd {
    type Id = Arc<str>;

    fn id(&self) -> Arc<str> {
        self.held.key.clone()
    }

    fn event(&self) -> Option<EventId> {
        self.rows.last().map(|completion| completion.ticket.id())
    }

    fn rows(&self) -> usize {
        self.rows.len().max(1)
    }

    fn trouble(&mut self) -> &mut Trouble {
        &mut self.trouble
    }

    fn is_in_doubt(&self) -> bool {
        self.trouble.in_doubt
    }

    /// Only the last one can have failed: what is refused is most likely its text.
    fn after_refusal(&self, refusals: &Refusals, number: u32, reason: &str) -> AfterRefusal {
        match self.rows.last() {
            Some(last) => refusals.after(&last.outcome, Some(last.attempt), number, reason),
            None => refusals.after(&Outcome::Released, None, number, reason),
        }
    }

    fn becomes(&mut self, outcome: Outcome) {
        if let Outcome::Retry { delay, .. } = outcome
            && self.ending != Ending::HeldOn
        {
            self.ending = Ending::After(delay);
        }
        if let Some(last) = self.rows.last_mut() {
            last.outcome = outcome;
        }
    }
}
