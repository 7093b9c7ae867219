//! The receipt for events in a transaction of the caller's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sendoff_core::EventId;

use crate::operate::{AwaitError, Awaited, Waiters};
use crate::source::{Handover, HotRow};

/// The receipt for events written into a transaction that is not ours.
///
/// Call [`release`](Self::release) after the commit, and they are delivered at once. Forgetting it
/// costs latency, never the event: the row becomes visible to every poller when its grace is over.
#[must_use = "release it after the commit, or delivery waits for the poller"]
pub struct Staged<Id = EventId> {
    id: Id,
    rows: Vec<HotRow>,
    handover: Option<Arc<Handover>>,
    waiters: Arc<Waiters>,
}

impl<Id> Staged<Id> {
    pub(crate) fn new(
        id: Id,
        rows: Vec<HotRow>,
        handover: Option<Arc<Handover>>,
        waiters: Arc<Waiters>,
    ) -> Self {
        Self { id, rows, handover, waiters }
    }

    /// Says that the transaction committed. The database is asked whether that is so, and only then
    /// does anything leave: a commit that was answered with a rollback releases nothing.
    ///
    /// After a commit that was not answered, drop the receipt: MySQL and MariaDB show what a crash may still
    /// take back, and a poller proves more than this does.
    pub fn release(self) {
        if let Some(handover) = self.handover {
            handover.confirm(self.rows);
        }
    }
}

impl Staged<EventId> {
    /// The id of the event.
    pub fn id(&self) -> EventId {
        self.id
    }

    /// [Releases](Self::release) it, and waits until the event is over, as
    /// [`Outbox::delivered`](crate::Outbox::delivered) does. Call it after the commit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sendoff_core::Delivery;
    /// use sendoff_engine::memory::MemoryStore;
    /// use sendoff_engine::{Awaited, Outbox};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::new();
    /// let outbox = Outbox::builder(store.clone())
    ///     .on("order.placed", |_: Delivery| async { Ok(()) })
    ///     .start()
    ///     .await?;
    /// let mut tx = store.transaction()?;
    /// let staged = outbox.write(&mut tx, ("order.placed", "{}")).await?;
    /// tx.commit()?;
    /// assert_eq!(staged.delivered(Duration::from_secs(5)).await?, Awaited::Delivered);
    /// # outbox.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delivered(self, timeout: Duration) -> Result<Awaited, AwaitError> {
        let (id, waiters) = (self.id, Arc::clone(&self.waiters));
        // Before it is released: its end is not missed, however soon it comes.
        let waiter = waiters.enter(id)?;
        self.release();
        waiter.over_within(timeout).await
    }
}

impl Staged<Vec<EventId>> {
    /// The ids of the events, in the order they were given.
    pub fn ids(&self) -> &[EventId] {
        &self.id
    }

    /// [Releases](Self::release) them, and waits until all are over, as
    /// [`Outbox::delivered`](crate::Outbox::delivered) does for one. Answers for each, in their order.
    pub async fn delivered(self, timeout: Duration) -> Result<Vec<Awaited>, AwaitError> {
        let (ids, waiters) = (self.id.clone(), Arc::clone(&self.waiters));
        let entered = waiters.enter_all(&ids)?;
        self.release();
        try_join_all(entered.into_iter().map(|waiter| waiter.over_within(timeout))).await
    }
}

impl<Id: fmt::Debug> fmt::Debug for Staged<Id> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Staged").field(&self.id).finish()
    }
}
