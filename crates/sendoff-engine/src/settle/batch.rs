use crate::handover::Ticket;
use crate::store::{Held, Outcome, Settlement};

/// Settlements that go out in one statement, and the tickets of the runs they end.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) settlements: Vec<Settlement>,
    /// For each settlement its ticket; none where nothing ran.
    tickets: Vec<Option<Ticket>>,
    /// Whether it was sent before, and nobody knows what became of it.
    pub(super) in_doubt: bool,
}

impl Batch {
    /// Gives all of these up.
    pub(super) fn releasing(holds: Vec<Held>) -> Self {
        let release = |held| Settlement { held, outcome: Outcome::Released };
        let tickets = holds.iter().map(|_| None).collect();
        Self { settlements: holds.into_iter().map(release).collect(), tickets, in_doubt: false }
    }

    pub(super) fn push(&mut self, held: Held, outcome: Outcome, ticket: Ticket) {
        self.settlements.push(Settlement { held, outcome });
        self.tickets.push(Some(ticket));
    }

    /// Cuts off what is beyond `size`.
    pub(super) fn split_off(&mut self, size: usize) -> Self {
        let settlements = self.settlements.split_off(size);
        Self { settlements, tickets: self.tickets.split_off(size), in_doubt: self.in_doubt }
    }

    /// Names the holds as they are now. While a batch waited for its next try, its rows may have
    /// run out and been claimed again by this very node, for the run that it settles.
    pub(super) fn refresh(&mut self) {
        for (settlement, ticket) in self.settlements.iter_mut().zip(&self.tickets) {
            if let Some(held) = ticket.as_ref().and_then(Ticket::held) {
                settlement.held = held;
            }
        }
    }

    /// The settlements are written, or never will be.
    pub(super) fn finish(self) {
        for (settlement, ticket) in self.settlements.iter().zip(self.tickets) {
            if let Some(ticket) = ticket {
                ticket.settled(settlement.held);
            }
        }
    }
}
