//! One settlement on its way to the database: the run that is over, the bounded queue into the writer,
//! and how it ended.

use std::time::Duration;

use sendoff_core::{Attempt, EventId};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::text::storable;
use crate::source::Ticket;
use crate::store::{Held, Outcome, Settlement};

/// A run that is over, and what is to be written about it.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    pub(crate) outcome: Outcome,
}

/// The way into the settlement writer. Bounded: when the database cannot keep up, workers wait.
#[derive(Debug, Clone)]
pub(crate) struct Completions(mpsc::Sender<Completion>);

pub(crate) fn completions(capacity: usize) -> (Completions, mpsc::Receiver<Completion>) {
    let (sender, receiver) = mpsc::channel(capacity);
    (Completions(sender), receiver)
}

impl Completions {
    /// Hands a completion on. If the writer is gone the hold simply runs out: the event is delivered
    /// again, never lost.
    pub(crate) async fn send(&self, completion: Completion) {
        completion.ticket.run_is_over();
        let _ = self.0.send(completion).await;
    }
}

pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The first pause of a row that is busy: a claim beside its settlement has it locked for a moment,
/// where it saw the row before it was held.
const MOMENT: Duration = Duration::from_millis(2);

/// One settlement, with what its bearer needs when it is over.
#[derive(Debug)]
pub(crate) struct Item<B> {
    pub(crate) settlement: Settlement,
    pub(crate) bearer: B,
    /// The run that it ends; none where nothing ran.
    pub(super) attempt: Option<Attempt>,
    /// Whether it was sent before, and nobody knows what became of it.
    pub(super) in_doubt: bool,
    pub(super) refusals: u32,
    /// Since when it is refused.
    pub(super) refused: Option<Instant>,
    /// How long it waited the last time.
    pause: Duration,
}

/// A settlement that need not be sent again.
#[derive(Debug)]
pub(crate) struct Over<B> {
    pub(crate) item: Item<B>,
    pub(crate) fate: Fate,
}

/// How a settlement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Carried out.
    Applied,
    /// Somebody else has the row, or it is terminal.
    Fenced,
    /// It changed nothing, but an earlier try of ours may have.
    InDoubt,
    /// The database refuses all that could be written about it.
    Refused,
    /// The store was closed.
    Closed,
}

impl<B> Item<B> {
    pub(crate) fn new(held: Held, outcome: Outcome, attempt: Option<Attempt>, bearer: B) -> Self {
        let settlement = Settlement { held, outcome: outcome.with_text(storable) };
        let (in_doubt, refusals, pause) = (false, 0, Duration::ZERO);
        Self { settlement, bearer, attempt, in_doubt, refusals, refused: None, pause }
    }

    /// Goes by the hold as it is now: while it waited, its row may have been extended, or have run
    /// out and been claimed again by this very node, for the run that it settles.
    pub(crate) fn go_by(&mut self, held: Held) {
        if self.settlement.held != held {
            self.settlement.held = held;
            self.in_doubt = false;
        }
    }

    pub(crate) fn id(&self) -> EventId {
        self.settlement.held.id
    }

    /// The next pause: twice the last one, up to `longest`.
    pub(super) fn wait(&mut self, longest: Duration) -> Duration {
        self.pause_from(FIRST_PAUSE, longest)
    }

    /// The next pause of a row that is busy.
    pub(super) fn wait_for_lock(&mut self, longest: Duration) -> Duration {
        self.pause_from(MOMENT, longest)
    }

    fn pause_from(&mut self, first: Duration, longest: Duration) -> Duration {
        self.pause = (self.pause * 2).max(first).min(longest);
        self.pause
    }
}
