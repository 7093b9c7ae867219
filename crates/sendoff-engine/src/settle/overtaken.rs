//! Settlements that were fenced, perhaps by a claim of this very node.

use sendoff_core::limits;

use super::item::Completion;
use super::item::{Fate, Item, Over};
use crate::source::{Joined, Looks, Mark, Ticket};
use crate::store::Held;

/// Settlements whose rows have another token, while claims of this very node are under way: if one
/// of those has the row, it is settled by the token of that claim instead of running a second time.
#[derive(Debug, Default)]
pub(super) struct Overtaken(Vec<Waiting>);

#[derive(Debug)]
struct Waiting {
    completion: Completion,
    /// The hold that was fenced; none where the hold was lost before a settlement was sent.
    by: Option<Held>,
    fate: Fate,
    /// The claims that may have the row.
    claims: Mark,
}

/// What is known now of those that waited.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// To be settled by the newer hold that they have now.
    pub(super) again: Vec<Item<Option<Ticket>>>,
    /// How many are somebody else's.
    pub(super) fenced: usize,
}

/// What may wait here; beyond it somebody else has the row, as far as anybody asks.
const WAITING: usize = 10 * limits::BATCH_ROWS;

impl Overtaken {
    /// A run whose hold was lost.
    pub(super) fn lost(&mut self, completion: Completion, looks: &Looks) {
        self.0.push(Waiting { completion, by: None, fate: Fate::Fenced, claims: looks.mark() });
    }

    /// A settlement that changed nothing; given back if it ends no run.
    pub(super) fn fenced(
        &mut self,
        over: Over<Item<Option<Ticket>>>,
        looks: &Looks,
    ) -> Option<Over<Item<Option<Ticket>>>> {
        let Over { item, fate } = over;
        let Item { settlement, bearer: Some(ticket), attempt: Some(attempt), .. } = item else {
            return Some(Over { item, fate });
        };
        let (by, outcome) = (Some(settlement.held), settlement.outcome);
        let completion = Completion { ticket, attempt, outcome };
        self.0.push(Waiting { completion, by, fate, claims: looks.mark() });
        None
    }

    /// The claims to wait for.
    pub(super) fn claims(&self) -> Option<Mark> {
        self.0.iter().map(|waiting| waiting.claims).min()
    }

    /// Takes out whatever is known by now.
    pub(super) fn known(&mut self, looks: &Looks) -> Known {
        let mut known = Known::default();
        let crowded = self.0.len() > WAITING;
        for waiting in std::mem::take(&mut self.0) {
            let Waiting { completion: Completion { ticket, attempt, outcome }, by, fate, claims } =
                waiting;
            let held = ticket.held();
            match (held, by) {
                (Some(newer), by) if by != Some(newer) => {
                    known.again.push(Item::new(newer, outcome, Some(attempt), Some(ticket)));
                }
                _ if !crowded && !looks.are_over(claims) => {
                    let completion = Completion { ticket, attempt, outcome };
                    self.0.push(Waiting { completion, by, fate, claims });
                }
                (_, by) => {
                    // What its run settled itself is over, unless somebody else has it.
                    let fenced = fate == Fate::Fenced && ticket.joined() == Joined::No;
                    known.fenced += usize::from(fenced);
                    if let Some(by) = by {
                        ticket.settled(by);
                    }
                }
            }
        }
        known
    }
}
