//! What the acceptance suite needs of a driver and its database.

use sendoff_core::{Event, EventId};
use sendoff_engine::Outbox;
use tokio::sync::Mutex;

use crate::capture::{Face, OutboxHarness, StoreOf};

/// The way a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With a commit; a receipt is released after it.
    Commit,
    /// With a rollback; a receipt is released all the same, as if somebody thought it committed.
    RollBack,
    /// With a commit; a receipt is forgotten.
    Forget,
}

/// An application with one connection.
#[derive(Debug)]
pub struct Application<H: OutboxHarness> {
    harness: H,
    conn: Mutex<H::Conn>,
}

impl<H: OutboxHarness> Application<H> {
    /// Connects.
    pub async fn open(harness: H) -> Self {
        let conn = Mutex::new(harness.connect().await);
        Self { harness, conn }
    }

    /// The store, another handle each time.
    pub fn store(&self) -> StoreOf<H> {
        self.harness.store()
    }

    /// Writes all of `events` in one transaction and returns their ids as the outbox told them.
    ///
    /// # Panics
    /// If the database does not do as it is told.
    pub async fn write(
        &self,
        outbox: &Outbox<StoreOf<H>>,
        face: Face,
        events: &[Event],
        end: End,
    ) -> Vec<EventId> {
        let mut conn = self.conn.lock().await;
        let begun = match face {
            Face::Guard => H::begin(&mut conn, outbox).await,
            Face::Own => H::own(&mut conn, outbox).await,
        };
        let mut tx = begun.expect("a transaction");
        let ids = tx.write(events).await.expect("good events");
        if end == End::Forget {
            tx.forget();
        }
        let ended = if end == End::RollBack { tx.rollback().await } else { tx.commit().await };
        ended.expect("the end of a transaction");
        ids
    }
}
