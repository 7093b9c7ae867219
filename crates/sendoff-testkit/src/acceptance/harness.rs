use async_trait::async_trait;
use sendoff_core::{Event, EventId};
use sendoff_engine::Outbox;
use sendoff_engine::store::OutboxStore;

/// The way an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// `begin`, `emit`, `commit`.
    Guard,
    /// `write_all` into a transaction the application holds, and `release` of the receipt.
    Own,
}

/// The way its transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With a commit; a receipt is released after it.
    Commit,
    /// With a rollback; a receipt is released all the same, as if somebody thought it committed.
    RollBack,
    /// With a commit; a receipt is forgotten.
    Forget,
}

/// A store and a driver, as an application would have them.
#[async_trait]
pub trait OutboxHarness: Send + Sync {
    /// The store.
    type Store: OutboxStore;

    /// The store, another handle each time; all of one harness are one database.
    fn store(&self) -> Self::Store;

    /// Writes all of `events` in one transaction and returns their ids as the outbox told them.
    ///
    /// # Panics
    /// If the database does not do as it is told.
    async fn write(
        &self,
        outbox: &Outbox<Self::Store>,
        face: Face,
        events: &[Event],
        end: End,
    ) -> Vec<EventId>;
}
