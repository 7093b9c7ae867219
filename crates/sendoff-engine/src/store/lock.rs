use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::EventId;

use super::{Claimed, Outcome, StoreError};

/// Taking rows for as long as a transaction of the store's own lasts: the `locked` claim mode.
///
/// Nothing is written when rows are taken, so that a rollback, a dropped batch and a crash all leave
/// attempts and due times exactly as they were, at once. The price: a connection is kept for each
/// batch, and handlers run inside its transaction (the one exception to I9), so they must be short.
#[async_trait]
pub trait LockStore: Send + Sync + 'static {
    /// Locks up to `lock.limit` visible rows that nobody else has locked, oldest due first; `None`
    /// if there are none. A batch is never empty.
    ///
    /// Waits where all the store's connections for this are in use. Cancel-safe: rows that nobody
    /// received are unlocked.
    async fn lock(&self, lock: &Lock) -> Result<Option<Box<dyn LockedRows>>, StoreError>;
}

/// What to lock.
#[derive(Debug, Clone, Copy)]
pub struct Lock {
    /// At most so many rows.
    pub limit: usize,
    /// As [`Claim::window`](super::Claim::window).
    pub window: Option<Duration>,
    /// Leave rows younger than this alone.
    pub skip_recent: Duration,
}

/// Rows locked by a transaction that is open. Dropped, it is rolled back, and its connection is
/// never used again half-way.
#[async_trait]
pub trait LockedRows: Send {
    /// The rows, once; nothing the second time.
    ///
    /// Nothing was written: [`Claimed::token`] is the due time the row has. A row that a vanished
    /// holder left behind counts its loss in [`Claimed::attempts`] all the same, and the settlement
    /// stores it.
    fn take(&mut self) -> Vec<Claimed>;

    /// Whether the transaction is still there, as far as this side knows without asking. Where its
    /// connection is known to be lost, so are the locks, and nothing may be delivered any more.
    fn is_open(&self) -> bool {
        true
    }

    /// Writes outcomes into the transaction, in one statement where the database can. What is not
    /// named stays as it was; ids that are not of this batch change nothing. A retry is due by the
    /// clock of this statement, not of the transaction's begin.
    ///
    /// Counters that every settlement shares are locked from here to the end of the transaction, so
    /// the end should follow at once.
    async fn settle(&mut self, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError>;

    /// Makes the settlements last. An error leaves it open whether they do: what did not is visible
    /// again, as it was.
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;

    /// Leaves every row as it was.
    async fn rollback(self: Box<Self>) -> Result<(), StoreError>;
}
