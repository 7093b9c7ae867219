//! Guards and writes for drivers whose calls are awaited.

use sendoff_core::{Event, EventId, EventType, IntoEvent};
use serde::Serialize;

use super::{
    Awaits, Begin, BeginError, Capture, Commit, CommitError, CommitMark, Guard, Nest,
    OutboxSavepoint, OutboxTx, Release, Resolution, Resolve, Scope, SendError, Staged,
    TornSavepoint, WriteError,
};
use crate::outbox::Outbox;
use crate::store::{SendStore, StoreError};

impl<S> Outbox<S> {
    /// Opens a transaction with an outbox on what the caller has: a connection or a pool.
    pub async fn begin<Conn>(&self, conn: Conn) -> Result<OutboxTx<'_, S, S::Tx>, BeginError>
    where
        S: Begin<Conn>,
    {
        let tx = self.store().begin(conn).await?;
        Ok(OutboxTx::new(self.store(), self.writer(), tx))
    }

    /// Writes an event into a transaction the caller holds, and ends later.
    pub async fn write<Tx: ?Sized>(
        &self,
        tx: &mut Tx,
        event: impl IntoEvent,
    ) -> Result<Staged, WriteError>
    where
        S: Capture<Tx>,
    {
        let event = self.writer().check(event)?;
        let id = event.id();
        let rows = self.writer().rows(vec![event]);
        let stamp = self.writer().stamp();
        let born = self.store().insert(tx, &rows).await?;
        Ok(self.staged(id, rows, &born, stamp))
    }

    /// Like [`write`](Self::write), with a type and a value that becomes the JSON of the payload.
    pub fn write_json<Tx: ?Sized>(
        &self,
        tx: &mut Tx,
        event_type: impl EventType,
        value: &(impl Serialize + ?Sized),
    ) -> impl Future<Output = Result<Staged, WriteError>>
    where
        S: Capture<Tx>,
    {
        // Not in the future, which then is `Send` whatever the value is.
        self.write(tx, Event::builder(event_type).json(value))
    }

    /// Writes events into a transaction the caller holds, all or none: in one statement, so that a future
    /// that is dropped leaves all of them or nothing in it.
    ///
    /// # Errors
    ///
    /// [`TooMany`](WriteError::TooMany) and [`TooLarge`](WriteError::TooLarge) beyond
    /// [`WRITE_EVENTS`](sendoff_core::limits::WRITE_EVENTS) and
    /// [`WRITE_BYTES`](sendoff_core::limits::WRITE_BYTES), or what the store can send at once.
    pub async fn write_all<Tx: ?Sized, E: IntoEvent>(
        &self,
        tx: &mut Tx,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Staged<Vec<EventId>>, WriteError>
    where
        S: Capture<Tx>,
    {
        let (ids, rows) = self.checked(events)?;
        let stamp = self.writer().stamp();
        let born = self.store().insert(tx, &rows).await?;
        Ok(self.staged(ids, rows, &born, stamp))
    }
}

impl<S: SendStore> Outbox<S> {
    /// Writes one event in a transaction of its own, on a connection of the store's own: it has committed,
    /// durably, when this answers, and is delivered as any other.
    ///
    /// For an event that goes with no change of data. What goes with one belongs into the same transaction
    /// ([`begin`](Self::begin), [`write`](Self::write)), or a crash leaves one without the other.
    ///
    /// ```
    /// use sendoff_engine::Outbox;
    /// use sendoff_engine::memory::MemoryStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = Outbox::writer_only(MemoryStore::new());
    /// let id = outbox.send(("night.began", "{}")).await?;
    /// assert_eq!(outbox.store().rows()[0].event.id(), id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`SendError::Commit`] with [`CommitError::Unknown`] where the link broke: [`resolve`](Self::resolve)
    /// asks what became of it. After every other error nothing is there.
    pub async fn send(&self, event: impl IntoEvent) -> Result<EventId, SendError> {
        let event = self.writer().check(event)?;
        let id = event.id();
        let rows = self.writer().rows(vec![event]);
        let stamp = self.writer().stamp();
        let born = self.store().send(&rows).await?;
        self.writer().committed(rows, &born, stamp);
        Ok(id)
    }
}

impl<S: Resolve> Outbox<S> {
    /// Asks the database what became of a commit that answered
    /// [`Unknown`](CommitError::Unknown).
    pub async fn resolve(&self, mark: &CommitMark) -> Result<Resolution, StoreError> {
        self.store().resolve(mark).await
    }
}

impl<S, Tx> OutboxTx<'_, S, Tx> {
    /// Inserts what was staged, commits, and hands the events to the hot lane.
    ///
    /// A dropped future leaves the outcome unknown to the caller, but never half done: the driver
    /// rolls back or the server commits, and what committed is delivered.
    pub async fn commit(mut self) -> Result<(), CommitError>
    where
        S: Commit<Tx>,
    {
        let Some(tx) = self.tx.take() else { return Ok(()) };
        if self.scope.staging.is_torn() {
            self.store.rollback(tx).await?;
            return Err(CommitError::RolledBack(TornSavepoint.into()));
        }
        self.scope.committing = true;
        let rows = self.rows();
        let stamp = self.writer.stamp();
        let answer = self.store.commit(tx, &rows).await;
        self.answered(rows, stamp, answer)
    }

    /// Rolls back.
    pub async fn rollback(mut self) -> Result<(), CommitError>
    where
        S: Commit<Tx>,
    {
        let Some(tx) = self.tx.take() else { return Ok(()) };
        let ended = self.store.rollback(tx).await;
        self.scope.staging.rolled_back();
        ended
    }
}

impl<'t, S: Release<'t, Nested>, Nested> OutboxSavepoint<'t, S, Nested> {
    /// Keeps what was done since the savepoint.
    pub async fn release(mut self) -> Result<(), CommitError> {
        let Some(nested) = self.tx.take() else { return Ok(()) };
        let answer = self.store.release(nested).await;
        self.released(answer)
    }

    /// Undoes what was done since the savepoint, and forgets what was staged under it.
    pub async fn rollback(mut self) -> Result<(), CommitError> {
        let Some(nested) = self.tx.take() else { return Ok(()) };
        let answer = self.store.roll_back_to(nested).await;
        self.rolled_back(answer)
    }
}

impl<S, Tx, Reach: Scope> Guard<'_, S, Tx, Awaits, Reach> {
    /// Sets a savepoint, in a transaction or in another one. Rolling back to it discards what was staged under
    /// it.
    pub async fn savepoint<'t>(
        &'t mut self,
    ) -> Result<OutboxSavepoint<'t, S, S::Nested>, BeginError>
    where
        S: Nest<'t, Tx>,
    {
        let (store, writer) = (self.store, self.writer);
        let (tx, staging) = self.outer();
        Ok(OutboxSavepoint::nested(store, writer, store.savepoint(tx).await?, staging))
    }
}
