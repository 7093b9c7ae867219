//! Cursors, written together.

use std::sync::Arc;

use sendoff_core::{limits, report};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Event, FAILED_PAUSE, Node, Statement};
use crate::journal::publish::pair::Proved;
use crate::journal::publish::store::{Move, Moved, PublishStore};
use crate::store::{StoreError, within};

impl<S: PublishStore> Node<S> {
    /// Stores whatever is to be stored, together, one statement at a time.
    pub(super) fn write(&mut self, now: Instant) {
        if !self.writing.may_begin(now) {
            return;
        }
        let numbered = self.pairs.iter_mut().enumerate();
        let moves: Vec<_> = numbered
            .filter_map(|(at, pair)| Some((at, pair.take_move(now)?)))
            .take(limits::BATCH_ROWS)
            .collect();
        if moves.is_empty() {
            return;
        }
        self.writing = Statement::UnderWay;
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        let limit = self.options.statement_limit();
        self.events.spawn(async move {
            let plain: Vec<_> = moves.iter().map(|(_, next)| next.clone()).collect();
            let made = within(limit, journal.store().advance(&owner, &plain)).await;
            Event::Wrote { moves, made }
        });
    }

    /// Whether a move was the question what became of a run that settled facts itself. Where the cursor has
    /// answered it, the pair goes on.
    fn on_answer(&mut self, at: usize, moved: &Move, made: Moved, now: Instant) -> bool {
        let pair = &mut self.pairs[at];
        let asks = pair.held.as_ref().is_some_and(|held| held.unproved.is_some());
        if !asks || made == Moved::Busy {
            return false;
        }
        if let Some(Proved { facts, up_to, ran }) = pair.proved(moved, made, now) {
            self.on_ran(at, &facts, up_to, &ran, now);
        }
        true
    }

    pub(super) fn on_wrote(
        &mut self,
        moves: Vec<(usize, Move)>,
        made: Result<Vec<Moved>, StoreError>,
        now: Instant,
    ) {
        self.writing = Statement::Free { from: now };
        match made {
            Ok(made) => {
                for ((at, moved), made) in moves.into_iter().zip(made) {
                    if self.on_answer(at, &moved, made, now) {
                        continue;
                    }
                    if made == Moved::Fenced {
                        info!(pair = %moved.pair, from = %moved.from, to = %moved.to,
                              "a cursor was not moved: it is another's, or somewhere else");
                        self.counts.fenced(&moved.pair);
                    }
                    self.pairs[at].wrote(moved, made, now);
                }
            }
            Err(error) => {
                warn!(error = report(&error), "cursors could not be stored; trying again");
                self.writing = Statement::Free { from: now + FAILED_PAUSE };
                for (at, moved) in moves {
                    self.pairs[at].not_wrote(moved);
                }
            }
        }
    }
}
