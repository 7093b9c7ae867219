//! One settlement on its way to the database: the run that is over, the bounded queue into the writer,
//! and how it ended.

use std::fmt;
use std::time::Duration;

use sendoff_core::{Attempt, EventId};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::refusal::{AfterRefusal, Refusals};
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
    trouble: Trouble,
}

/// What goes into the database whole or not at all: what became of a row, or of a run of a key.
pub(crate) trait Unit: Sized {
    /// What the database answers by.
    type Id: Ord + Clone + fmt::Debug;

    fn id(&self) -> Self::Id;

    /// The event that the log names.
    fn event(&self) -> Option<EventId>;

    /// How many rows it writes.
    fn rows(&self) -> usize;

    fn trouble(&mut self) -> &mut Trouble;

    /// Whether it was sent before, and nobody knows what became of it.
    fn is_in_doubt(&self) -> bool;

    /// What follows its refusal with this number.
    fn after_refusal(&self, refusals: &Refusals, number: u32, reason: &str) -> AfterRefusal;

    /// Says this from now on.
    fn becomes(&mut self, outcome: Outcome);
}

/// What went wrong so far on the way into the database.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Whether it was sent before, and nobody knows what became of it.
    pub(crate) in_doubt: bool,
    refusals: u32,
    /// Since when it is refused.
    refused: Option<Instant>,
    /// How long it waited the last time.
    pause: Duration,
}

impl Trouble {
    /// It was refused; says how often by now.
    pub(super) fn refused(&mut self, refusals: &Refusals, now: Instant) -> u32 {
        let since = *self.refused.get_or_insert(now);
        self.refusals = refusals.next(self.refusals, now.duration_since(since));
        self.refusals
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

/// What need not be sent again.
#[derive(Debug)]
pub(crate) struct Over<U> {
    pub(crate) item: U,
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
        Self { settlement, bearer, attempt, trouble: Trouble::default() }
    }

    /// Goes by the hold as it is now: while it waited, its row may have been extended, or have run
    /// out and been claimed again by this very node, for the run that it settles.
    pub(crate) fn go_by(&mut self, held: Held) {
        if self.settlement.held != held {
            self.settlement.held = held;
            self.trouble.in_doubt = false;
        }
    }
}

impl<B> Unit for Item<B> {
    type Id = EventId;

    fn id(&self) -> EventId {
        self.settlement.held.id
    }

    fn event(&self) -> Option<EventId> {
        Some(self.id())
    }

    fn rows(&self) -> usize {
        1
    }

    fn trouble(&mut self) -> &mut Trouble {
        &mut self.trouble
    }

    fn is_in_doubt(&self) -> bool {
        self.trouble.in_doubt
    }

    fn after_refusal(&self, refusals: &Refusals, number: u32, reason: &str) -> AfterRefusal {
        refusals.after(&self.settlement.outcome, self.attempt, number, reason)
    }

    fn becomes(&mut self, outcome: Outcome) {
        self.settlement.outcome = outcome;
    }
}
