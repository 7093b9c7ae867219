use async_trait::async_trait;
use sendoff_core::{Event, EventId};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{Commit, Guard, Staged};
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

impl End {
    /// Whether the transaction commits.
    pub fn commits(self) -> bool {
        self != Self::RollBack
    }

    /// Writes through a guard, and ends it.
    ///
    /// # Panics
    /// If the database does not do as it is told.
    pub async fn guard<S: Commit<Tx>, Tx>(
        self,
        mut tx: Guard<'_, S, Tx>,
        events: &[Event],
    ) -> Vec<EventId> {
        let ids = events.iter().map(|event| tx.emit(event).expect("a good event")).collect();
        let ended = if self.commits() { tx.commit().await } else { tx.rollback().await };
        ended.expect("the end of a transaction");
        ids
    }

    /// Does with the receipt what is done after the end of its transaction.
    pub fn receipt(self, staged: Staged<Vec<EventId>>) -> Vec<EventId> {
        let ids = staged.ids().to_vec();
        if self != Self::Forget {
            staged.release();
        }
        ids
    }
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
