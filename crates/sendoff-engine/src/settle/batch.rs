use sendoff_core::EventId;

use crate::handover::Run;
use crate::store::{Held, Outcome, Settlement};

/// Settlements that go out in one statement, and the runs they end.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) settlements: Vec<Settlement>,
    /// For each settlement its run; none where nothing ran.
    runs: Vec<Option<Run>>,
    /// Whether it was sent before, and nobody knows what became of it.
    pub(super) in_doubt: bool,
}

impl Batch {
    /// Gives all of these up.
    pub(super) fn releasing(holds: Vec<Held>) -> Self {
        let release = |held| Settlement { held, outcome: Outcome::Released };
        let runs = vec![None; holds.len()];
        Self { settlements: holds.into_iter().map(release).collect(), runs, in_doubt: false }
    }

    pub(super) fn push(&mut self, held: Held, outcome: Outcome, run: Run) {
        self.settlements.push(Settlement { held, outcome });
        self.runs.push(Some(run));
    }

    /// Cuts off what is beyond `size`.
    pub(super) fn split_off(&mut self, size: usize) -> Self {
        let settlements = self.settlements.split_off(size);
        Self { settlements, runs: self.runs.split_off(size), in_doubt: self.in_doubt }
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = (EventId, Run)> {
        let ids = self.settlements.iter().map(|settlement| settlement.held.id);
        ids.zip(&self.runs).filter_map(|(id, run)| Some((id, (*run)?)))
    }
}
