//! What a relay asks of a store to work on rows under a transaction's locks.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, Timestamp};

use super::{Claimed, Except, Outcome, StoreError};

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
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError>;
}

/// What to lock.
#[derive(Debug, Clone, Copy)]
pub struct Lock<'a> {
    /// At most so many rows.
    pub limit: usize,
    /// As [`Claim::bytes`](super::Claim::bytes).
    pub bytes: usize,
    /// As [`Claim::window`](super::Claim::window).
    pub window: Option<Duration>,
    /// As [`Claim::from`](super::Claim::from).
    pub from: Option<Timestamp>,
    /// Leave rows younger than this alone.
    pub skip_recent: Duration,
    /// As [`Claim::except`](super::Claim::except): such rows are not locked either.
    pub except: Except<'a>,
}

impl Lock<'_> {
    /// Up to `limit` rows, of any age and size.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: usize::MAX,
            window: None,
            from: None,
            skip_recent: Duration::ZERO,
            except: Except::NOTHING,
        }
    }
}

/// Rows locked by a transaction that is open. Dropped, it is rolled back, and its connection is
/// never used again half-way.
#[async_trait]
pub trait LockedRows: Send {
    /// The rows, once; nothing the second time.
    ///
    /// Nothing was written: they are held by [`Holding::Lock`](sendoff_core::Holding::Lock). A row that
    /// a vanished holder left behind counts its loss in [`Claimed::attempts`] all the same, and the settlement
    /// stores it.
    fn take(&mut self) -> Vec<Claimed>;

    /// As [`Claims::cut`](super::Claims::cut).
    fn is_cut(&self) -> bool {
        false
    }

    /// Whether the transaction is still there, as far as this side knows without asking. Where its
    /// connection is known to be lost, so are the locks, and nothing may be delivered any more.
    fn is_open(&self) -> bool {
        true
    }

    /// After how long without a statement the server ends the transaction, and with it the locks;
    /// none if it never does. Whoever works for longer [keeps it awake](Self::keep_awake). 12 s unless
    /// a store says otherwise.
    fn idle_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(12))
    }

    /// Tells the server that this process is alive, so that its limit on idle transactions ends only
    /// those of a process that froze (I10).
    async fn keep_awake(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes outcomes and ends the transaction, in one round trip where the database can: a process
    /// that freezes in between must not leave anything locked that others need. What is not named
    /// stays as it was; ids that are not of this batch change nothing. A retry is due by the clock of
    /// this statement, not of the transaction's begin.
    ///
    /// # Errors
    ///
    /// [`Refused`](StoreError::Refused): nothing was written, and the transaction is over. Any other
    /// leaves it open whether the outcomes are there; what is not is visible again, as it was.
    async fn commit(self: Box<Self>, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError>;

    /// Leaves every row as it was.
    async fn rollback(self: Box<Self>) -> Result<(), StoreError>;
}
