//! What the maintainer asks of a store whose table is in partitions.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::partition::{PartitionName, Planned, Survey};

use super::StoreError;

/// A table that is partitioned by the time its rows were created.
///
/// What no partition covers falls into a tail, which takes rows like any partition and is never
/// dropped.
#[async_trait]
pub trait PartitionStore: Send + Sync + 'static {
    /// Takes the one lock of maintenance on this table, on a session that is used for nothing else
    /// until it is released; `None` where somebody else has it.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) for a table that is missing or not partitioned.
    async fn maintain(&self) -> Result<Option<Box<dyn PartitionSession>>, StoreError>;
}

/// The lock of maintenance, and the session that holds it. Dropping it ends the session, and with it
/// the lock and whatever was half done.
#[async_trait]
pub trait PartitionSession: Send + fmt::Debug {
    /// What there is.
    async fn survey(&mut self) -> Result<Survey, StoreError>;

    /// Whether a row of this partition is owed a delivery. A look without a lock.
    async fn is_pending(&mut self, name: &PartitionName) -> Result<bool, StoreError>;

    /// Whether a row of this partition is dead, and would be lost with it. A look without a lock.
    async fn has_dead(&mut self, _name: &PartitionName) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Makes a partition; rows of the tail that belong to it move into it in the same transaction,
    /// at most `most_moved` of them.
    async fn create(&mut self, planned: &Planned, bounds: Bounds) -> Result<Created, StoreError>;

    /// Drops a partition in whose rows nothing is left to do: asked again under a lock that keeps
    /// every writer out, and that never outlives a round trip (I10). A transaction that wrote to it
    /// and has not ended makes it busy. Dead rows go with it only where `bounds` allow it.
    async fn drop(&mut self, name: &PartitionName, bounds: Bounds) -> Result<Dropped, StoreError>;

    /// Gives lock and session back.
    async fn release(self: Box<Self>) -> Result<(), StoreError>;
}

/// Within what a change of partitions stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How long it waits for a lock, and others with it.
    pub lock_wait: Duration,
    /// Rows that move out of the tail in one transaction.
    pub most_moved: u64,
    /// Whether dead rows may go with their partition.
    pub drop_dead: bool,
}

/// What became of a partition that was to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It is there, with so many rows of the tail.
    Made {
        /// Rows that moved.
        moved: u64,
    },
    /// The lock was not to be had in time.
    Busy,
    /// More rows of the tail belong to it than may move at once.
    TailTooFull,
}

/// What became of a partition that was to be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// It is gone, and every row in it was terminal.
    Gone,
    /// A row in it is owed a delivery.
    Pending,
    /// A row in it is dead, and was not allowed to go.
    Dead,
    /// The lock was not to be had in time.
    Busy,
}
