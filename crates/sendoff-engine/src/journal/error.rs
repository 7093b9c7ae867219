//! How appending, deciding, executing and tailing can fail.

use std::time::Duration;

use sendoff_core::journal::{Invalid, Position, Unsafe};
use sendoff_core::{BoxError, limits};

use crate::store::StoreError;

/// Why the condition of an append does not hold. Decide again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// There is a fact that it excludes.
    #[error("the condition does not hold: there is a fact at position {position}; decide again")]
    Fact {
        /// Where the first one is.
        position: Position,
    },
    /// The server was started anew since: what was decided by may be gone.
    #[error(
        "the condition does not hold: the database's server is another, or was started anew, and what \
         was decided by may be gone; decide again"
    )]
    Restarted,
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// A fact or the condition is not acceptable; no SQL was sent.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The condition does not hold.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// Somebody else has an append open that this one excludes, for longer than it was to wait, or
    /// others had every connection for as long. The caller's transaction, where there is one, cannot go
    /// on.
    #[error("another append on the same tags or types is open; try again")]
    Busy(#[source] BoxError),
    /// The caller's transaction cannot see what it would have to check.
    #[error(
        "an append with a condition needs a transaction at READ COMMITTED (on MySQL and MariaDB set it \
         for the session): with a snapshot from its beginning it is blind for what it has to look for"
    )]
    Isolation,
    /// A fact with one of these ids is there, and it is another.
    #[error("a fact with the same id is there already, with another content")]
    IdTaken,
    /// There is no transaction of the caller's to append in.
    #[error("no transaction is open on this connection")]
    NoTransaction,
    /// The store failed. With a transaction of its own the append may or may not be there; appended
    /// again with the same ids it is there once.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AppendError {
    /// Whether the append may be there all the same: no answer came, or the link was lost on its way.
    /// Appended again with the same ids it is there once. Anything else is certain: nothing was appended.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Store(StoreError::Unavailable(_) | StoreError::Timeout))
    }
}

/// Why a decision could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The model asks for what is not acceptable.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Somebody has an append open that the decision would have to know, for longer than it was to
    /// wait, or others had every connection for as long.
    #[error("an append that the decision depends on is open; try again")]
    Busy(#[source] BoxError),
    /// The model could not make sense of a fact.
    #[error("the model could not apply the fact at position {position}")]
    Model {
        /// Where the fact is.
        position: Position,
        /// What was wrong.
        #[source]
        source: BoxError,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError<E> {
    /// Its handler refused. In the text and not as a source, so that a boxed error will do.
    #[error("the handler refused the command: {0}")]
    Handler(E),
    /// Others were quicker, every time.
    #[error("the command was tried {tries} times, and each time others were quicker")]
    Contended {
        /// How often it was tried.
        tries: u32,
        /// What the last try ran into: [`Conflict`](AppendError::Conflict) or
        /// [`Busy`](AppendError::Busy).
        #[source]
        last: AppendError,
    },
    /// The decision took longer than its locks last, and meanwhile others appended what it was made by.
    /// Nothing was appended, and it is not run again: it would take as long the next time.
    #[error(
        "the decision took {took:?}, its locks last for {:?}, and others were quicker",
        limits::DECISION
    )]
    Slow {
        /// How long.
        took: Duration,
        /// What the append ran into: [`Conflict`](AppendError::Conflict) or
        /// [`Busy`](AppendError::Busy).
        #[source]
        last: AppendError,
    },
    /// What it decides by could not be read. [`Busy`](DecideError::Busy) where others had it locked for
    /// longer than it was to wait.
    #[error("what the command decides by could not be read")]
    Decide(#[source] DecideError),
    /// What the handler decided could not be appended.
    #[error("the facts could not be appended")]
    Append(#[source] AppendError),
}

impl<E> ExecuteError<E> {
    /// Whether the command may be carried out all the same: its append was not answered, also not when
    /// it was repeated. Anything else is certain: nothing was appended.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Append(error) if error.is_in_doubt())
    }
}

/// Why a tail is over. Positions in memory are worth nothing then: open another from the stored one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TailError {
    /// Nobody could be sure that nothing is skipped.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
