//! Pausing delivery, as an application does it.

use sendoff_core::{AuditNote, Pause, PauseScope};

use crate::outbox::Outbox;
use crate::store::{PauseStore, StoreError};

impl<S: PauseStore> Outbox<S> {
    /// Pauses all delivery, one event type, or one handler, for every node that delivers from this database:
    /// each has heard of it within a second. Kept in the database until it is [resumed](Self::resume).
    /// Answers `false` where it is paused already.
    ///
    /// Writing goes on, and what is paused waits in the table: it uses up no attempt and is not in the way of
    /// other events. Runs that have begun go on to their end.
    ///
    /// A handler is named as in the log: by its sink's [name](sendoff_core::Sink::name), which is the event
    /// type for whatever is registered with `on`, and otherwise what was chosen for it:
    /// `on_sink("order.placed", HandlerSink::new("billing", handler))`. Only nodes that have the handler know
    /// what that means, so where others share the table, pause the event type.
    ///
    /// ```
    /// use sendoff_core::{AuditNote, PauseScope};
    /// use sendoff_engine::Outbox;
    /// use sendoff_engine::memory::MemoryStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = Outbox::writer_only(MemoryStore::new());
    /// let mails = PauseScope::event_type("order.mailed")?;
    /// outbox.pause(&mails, &AuditNote::new("ann", "the provider has an incident")?).await?;
    /// assert_eq!(outbox.pauses().await?[0].scope, mails);
    /// outbox.resume(&mails, &AuditNote::new("ann", "it is over")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.store().pause(scope, note).await
    }

    /// Lets go what was paused: it is delivered from now on, the oldest first. Answers `false` where it was
    /// not paused. What is paused by another order as well, as all delivery is, goes on waiting.
    pub async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.store().resume(scope, note).await
    }

    /// What is paused now, since when, by whom and why.
    pub async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.store().pauses().await
    }
}
