//! How writing, beginning and committing can fail, and what is known of a commit in doubt.

use sendoff_core::{BoxError, EventId, InvalidEvent};

use crate::store::{NewRow, StoreError};

/// Why an event was not written. The transaction is the caller's and still open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The event itself is not acceptable; no SQL was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidEvent),
    /// A write needs an open transaction of the caller's.
    #[error("no transaction is open on this connection; an event is written inside one")]
    NoTransaction,
    /// An event with that id exists already.
    #[error("an event with the same id was written before")]
    DuplicateId,
    /// Too many events for one write, which is one statement; no SQL was sent. Write them in parts.
    #[error("{events} events in one write; the limit is {limit}")]
    TooMany {
        /// What was given.
        events: usize,
        /// The most that one write takes.
        limit: usize,
    },
    /// Too much for one write, which is one statement; no SQL was sent. Write it in parts.
    #[error("{bytes} bytes of payload in one write; the limit is {limit}")]
    TooLarge {
        /// What was given.
        bytes: usize,
        /// The most that one write takes.
        limit: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The driver refused.
    #[error("the driver refused the insert")]
    Driver(#[source] BoxError),
}

/// Why a transaction could not begin.
#[derive(Debug, thiserror::Error)]
#[error("the transaction could not begin")]
pub struct BeginError(#[source] pub BoxError);

/// Why a commit did not return in the way one hopes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The staged events could not be inserted; everything was rolled back.
    #[error("the staged events were refused, and the transaction was rolled back")]
    Refused(#[source] WriteError),
    /// The database rolled the transaction back.
    #[error("the transaction was rolled back")]
    RolledBack(#[source] BoxError),
    /// Nobody knows: the link broke between COMMIT and its answer. Nothing was released to the hot
    /// lane; what did commit will be delivered by the poller.
    #[error("the outcome of the commit is unknown")]
    Unknown {
        /// What would be there if it did commit.
        mark: CommitMark,
        /// What broke.
        #[source]
        source: BoxError,
    },
}

/// Why an event was not sent by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The event was refused; nothing is there.
    #[error(transparent)]
    Refused(#[from] WriteError),
    /// No transaction could be begun; nothing is there.
    #[error("no transaction could be begun to send it")]
    Begin(#[source] StoreError),
    /// The commit failed, or [nobody knows](CommitError::Unknown).
    #[error(transparent)]
    Commit(CommitError),
}

impl From<StoreError> for SendError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Closed => Self::Refused(WriteError::Closed),
            error => Self::Begin(error),
        }
    }
}

impl From<CommitError> for SendError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Refused(refused) => Self::Refused(refused),
            error => Self::Commit(error),
        }
    }
}

/// The end of a savepoint was not waited for, so nobody knows which of its changes are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the future that ended a savepoint was dropped before its answer came")]
pub struct TornSavepoint;

/// What a commit of unknown outcome would have left behind. [`Outbox::resolve`](crate::Outbox) asks
/// the database about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitMark {
    /// The ids of its events.
    pub ids: Vec<EventId>,
    /// The database's number for the transaction, where it was learnt before the link broke.
    pub xid: Option<u64>,
}

impl CommitMark {
    /// A mark for these rows, without a transaction's number.
    pub fn of(rows: &[NewRow]) -> Self {
        Self::new(rows.iter().map(|row| row.event.id()).collect())
    }

    /// The mark of a transaction that wrote these events.
    pub fn new(ids: Vec<EventId>) -> Self {
        Self { ids, xid: None }
    }

    /// The same, of a transaction whose number is known.
    #[must_use]
    pub fn with_xid(self, xid: u64) -> Self {
        Self { xid: Some(xid), ..self }
    }
}

/// What the database says about a commit of unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It committed; its events are or will be delivered.
    Committed,
    /// It was rolled back; nothing of it is there.
    RolledBack,
    /// Nobody can tell yet, or any more: it may still be open, or the database has forgotten it.
    NotYetKnown,
}
