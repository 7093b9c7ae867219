//! What a store forgets, and when.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::Timestamp;

use super::StoreError;

/// Forgetting what is over.
#[async_trait]
pub trait RetainStore: Send + Sync + 'static {
    /// How long delivered rows are kept; `None` where they are deleted when done.
    fn keeps(&self) -> Option<Duration>;

    /// Deletes up to `purge.limit` rows that ended long enough ago, in whichever order costs least,
    /// in one short transaction, and says how many. Fewer than the limit means that none were left
    /// that nobody else was deleting. Pending rows are never touched.
    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError>;

    /// Adds up what settlements counted by event type, where the store keeps that in parts so that
    /// settlements of several nodes never wait for one another; answers how many parts there were. Forgets
    /// types of which nothing ended for [`TALLY`](sendoff_core::limits::TALLY), whose counters would grow
    /// in number for ever.
    async fn fold(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Deletes up to `limit` rows of a trail that are from long enough ago, the oldest first, in one short
    /// transaction, and says how many. Fewer than the limit means that none were left that nobody else was
    /// deleting. A store without that trail has none.
    async fn forget(&self, trail: Trail, cutoff: Cutoff, limit: usize) -> Result<u64, StoreError> {
        let _ = (trail, cutoff, limit);
        Ok(0)
    }

    /// How many rows [`purge`](Self::purge) would delete, counted up to its limit and not beyond.
    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError>;
}

/// What is kept beside the events of what was done, and grows until it is [forgotten](RetainStore::forget).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trail {
    /// Of consumers, what they saw: the rows of an [`Inbox`](crate::Inbox).
    Seen,
    /// Of operators, what they did: the entries of the [audit](super::AuditEntry).
    Audit,
}

/// What to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purge {
    /// Rows that ended before this.
    pub cutoff: Cutoff,
    /// At most so many in all.
    pub limit: usize,
    /// Dead rows too. Delivered ones always.
    pub dead: bool,
}

/// When a row must have ended, been seen or been written to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cutoff {
    /// Longer ago than this, by the database's clock.
    Age(Duration),
    /// Before this moment. One in the future lets every row go that is terminal.
    Before(Timestamp),
}

impl Cutoff {
    /// The moment that is meant at this time.
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Age(age) => now.saturating_sub(age),
            Self::Before(moment) => moment,
        }
    }
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Delivered rows.
    pub done: u64,
    /// Dead rows.
    pub dead: u64,
}

impl Purged {
    /// Both together.
    pub const fn total(self) -> u64 {
        self.done + self.dead
    }
}

impl std::ops::AddAssign for Purged {
    fn add_assign(&mut self, more: Self) {
        self.done += more.done;
        self.dead += more.dead;
    }
}
