//! Promises that were not kept, each with its event.

use std::fmt;
use std::sync::Arc;

use sendoff_core::{EventId, Status};

use super::entry::Position;

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Committed, never delivered, not dead, and no longer in the table as owed (G2).
    Lost {
        /// The event.
        id: EventId,
    },
    /// Delivered, though its transaction was rolled back or nobody ever wrote it (G3).
    Phantom {
        /// The event.
        id: EventId,
    },
    /// In the table, though its transaction was rolled back or nobody ever wrote it (G1).
    GhostRow {
        /// The event.
        id: EventId,
    },
    /// Run again after a delivery that succeeded, and no fault explains it (G4).
    UnexplainedDuplicate {
        /// The event.
        id: EventId,
        /// Where the delivery that succeeded started.
        first: Position,
        /// Where the next one started.
        second: Position,
    },
    /// Two runs of one event at once on one node (D3).
    Overlap {
        /// The event.
        id: EventId,
        /// The node.
        node: Arc<str>,
        /// Where the first run started.
        first: Position,
        /// Where the second started, before the first ended.
        second: Position,
    },
    /// Two events of a key, the later one's first delivery begun before the earlier one's ended (G5).
    OutOfOrder {
        /// The key.
        key: Arc<str>,
        /// The one committed earlier.
        earlier: EventId,
        /// The one committed later.
        later: EventId,
    },
    /// A settlement changed a row by a token that was not its own any more (I2).
    StaleSettlement {
        /// The event.
        id: EventId,
        /// Where it was applied.
        at: Position,
    },
    /// A cursor was moved by a node that did not lead it any more, or from where it was not.
    StaleMove {
        /// The node.
        node: Arc<str>,
        /// Where it was made.
        at: Position,
    },
    /// An attempt with a number, or a row with a count, beyond what was allowed (D7).
    TooManyAttempts {
        /// The event.
        id: EventId,
        /// The number.
        attempt: u32,
        /// The highest that could be explained.
        limit: u32,
    },
    /// An attempt was counted for which no run failed and nobody vanished (D7).
    AttemptWithoutRun {
        /// The event.
        id: EventId,
        /// The stored count.
        attempts: u32,
        /// The runs that failed.
        failed: u64,
    },
    /// More runs than attempts and losses together (D7).
    TooManyRuns {
        /// The event.
        id: EventId,
        /// The runs.
        runs: u64,
        /// The most that could be explained.
        limit: u64,
    },
    /// What was delivered is not what was written (G6).
    Altered {
        /// The event.
        id: EventId,
        /// Where the run started.
        at: Position,
    },
    /// Still owed, though everything was healed and given time (G2).
    NotTerminal {
        /// The event.
        id: EventId,
        /// Where it stands.
        status: Status,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { id } => write!(f, "{id} was committed and never delivered"),
            Self::Phantom { id } => write!(f, "{id} was delivered and never committed"),
            Self::GhostRow { id } => write!(f, "{id} has a row and was never committed"),
            Self::UnexplainedDuplicate { id, first, second } => {
                write!(f, "{id} was delivered at {first} and ran again at {second} without a fault")
            }
            Self::Overlap { id, node, first, second } => {
                write!(f, "{id} ran twice at once on {node}, from {first} and from {second}")
            }
            Self::OutOfOrder { key, earlier, later } => {
                write!(f, "{later} was delivered before {earlier}, which came first in key {key}")
            }
            Self::StaleSettlement { id, at } => {
                write!(f, "{id} was settled at {at} by a token that was no longer its own")
            }
            Self::StaleMove { node, at } => {
                write!(f, "{node} moved a cursor at {at} that was not its own any more")
            }
            Self::TooManyAttempts { id, attempt, limit } => {
                write!(f, "{id} reached attempt {attempt}; the limit is {limit}")
            }
            Self::AttemptWithoutRun { id, attempts, failed } => {
                write!(f, "{id} has {attempts} attempts; {failed} runs failed, and nothing broke")
            }
            Self::TooManyRuns { id, runs, limit } => {
                write!(f, "{id} ran {runs} times; attempts and losses allow {limit}")
            }
            Self::Altered { id, at } => {
                write!(f, "{id} was delivered at {at} with other content than was written")
            }
            Self::NotTerminal { id, status } => {
                write!(f, "{id} is still {status:?} after everything was healed")
            }
        }
    }
}
