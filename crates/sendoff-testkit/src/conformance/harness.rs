//! What the conformance suite needs of a store.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, Timestamp};
use sendoff_engine::capture::WriteError;
use sendoff_engine::store::{Born, LockStore, NewRow, OutboxStore};

/// What the suite needs to put a store through its cases: an empty store, transactions, and time.
///
/// Make a fresh one for each case; cases run side by side.
#[async_trait]
pub trait StoreHarness: Send + Sync + 'static {
    /// The store.
    type Store: OutboxStore + LockStore;

    /// The store under test.
    fn store(&self) -> &Self::Store;

    /// Inserts `rows` in one transaction and commits it. What a commit was refused for is the error
    /// itself, not wrapped in a commit's.
    async fn commit(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError>;

    /// Inserts `rows` in one transaction and rolls it back.
    async fn roll_back(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError>;

    /// The time by the store's clock.
    async fn now(&self) -> Timestamp;

    /// Lets at least so much time pass on the store's clock. Moves a clock that can be moved, and
    /// really waits for one that cannot.
    async fn pass(&self, time: Duration);

    /// Locks one row as somebody else's transaction does (an operator's open `update`), held or not;
    /// `None` where rows cannot be locked one by one, and the cases about it pass unseen.
    async fn lock_row(&self, _id: EventId) -> Option<Box<dyn ForeignLock>> {
        None
    }

    /// The store once more, as another process has it: with connections of its own. `None` where one handle
    /// is as good as several.
    async fn beside(&self) -> Option<Self::Store> {
        None
    }

    /// Inserts `rows` in a transaction that stays open while others write. `None` where whoever writes waits
    /// for whoever else does, and the cases about what commits late pass unseen.
    async fn write_late(&self, _rows: &[NewRow]) -> Option<Box<dyn LateWrite>> {
        None
    }

    /// Whether an id that was written is refused for as long as its row is there. A table in
    /// partitions may hold that only within one write.
    fn ids_are_unique_for_good(&self) -> bool {
        true
    }

    /// The unit of every hold and delay in the suite. Where time really passes, a few tenths of a
    /// second are enough: longer than any statement takes, short enough to wait for.
    fn tick(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// A store whose clock can be moved without harm to others.
#[async_trait]
pub trait ClockHarness: StoreHarness<Store: Clone> {
    /// Steps the store's clock back.
    async fn step_back(&self, time: Duration);
}

/// A row that somebody else has locked.
#[async_trait]
pub trait ForeignLock: Send {
    /// Ends the transaction that has it, and leaves the row as it was.
    async fn release(self: Box<Self>);
}

/// A transaction that has written, and is still open.
#[async_trait]
pub trait LateWrite: Send {
    /// Commits it.
    async fn commit(self: Box<Self>);
}
