//! What a history is made of.

use std::sync::Arc;

use sendoff_core::{EventId, Holding, Status};
use sendoff_engine::store::Outcome;

use super::digest::Digest;
use super::fault::Fault;

/// The place of an entry in its history; what happened later has a higher one.
pub type Position = usize;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A writer's transaction ended.
    Written {
        /// The event.
        id: EventId,
        /// The key within which order matters.
        key: Option<Arc<str>>,
        /// What was written.
        digest: Digest,
        /// How it ended.
        outcome: WriteOutcome,
        /// Its place among the commits, where the writer knows it. The place of the entry in the
        /// history counts where it does not; do not mix the two within one key.
        seq: Option<u64>,
    },
    /// A handler began a run.
    Started {
        /// The node it runs on.
        node: Arc<str>,
        /// The event.
        id: EventId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// What was delivered.
        digest: Digest,
    },
    /// A handler ended a run.
    Finished {
        /// The position of its [`Started`](Self::Started).
        started: Position,
        /// Whether it succeeded.
        ok: bool,
    },
    /// A settlement reached the store.
    Settled {
        /// The node that sent it.
        node: Arc<str>,
        /// The event.
        id: EventId,
        /// The hold it named.
        by: Holding,
        /// What it asked for.
        ending: Ending,
        /// Whether it changed the row; if not it was fenced.
        applied: bool,
        /// Whether the row was held by that, when the store looked.
        current: bool,
    },
    /// A move of a log reader's cursor reached the store.
    Moved {
        /// The node that sent it.
        node: Arc<str>,
        /// The position it moves to.
        to: u64,
        /// Whether it was made; if not it was fenced.
        applied: bool,
        /// Whether the node led the reader, from where the cursor was, when the store looked.
        current: bool,
    },
    /// Somebody decided about an event that had ended.
    Decided {
        /// The event.
        id: EventId,
        /// What.
        decision: Decision,
    },
    /// Something broke.
    Fault(Fault),
    /// How a row stands, usually at the end.
    Stands {
        /// The event.
        id: EventId,
        /// Where it stands.
        status: Status,
        /// The stored count.
        attempts: u32,
    },
}

/// How a writer's transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It committed.
    Committed,
    /// It was rolled back, or never committed.
    Aborted,
    /// Nobody could tell the writer.
    Unknown,
}

/// What was decided about an event that had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is dead, and is to be delivered again.
    Requeued,
    /// It is dead, and deleted: whatever waits for it goes on.
    Discarded,
    /// It is dead and stays so, and its key goes on without it.
    Resumed,
    /// Its row is deleted, as old ones are.
    Purged,
}

/// What a settlement asked for; an [`Outcome`] without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the outcome of the same name")]
pub enum Ending {
    Done,
    Retry,
    Dead,
    Released,
}

impl From<&Outcome> for Ending {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Retry { .. } | Outcome::Wait { .. } => Self::Retry,
            Outcome::Dead { .. } => Self::Dead,
            Outcome::Released | Outcome::Restored { .. } => Self::Released,
        }
    }
}
