//! Guards and writes for drivers whose calls block, such as rusqlite.

use sendoff_core::{Event, EventId, EventType, IntoEvent};
use serde::Serialize;

use super::{
    BeginBlocking, BeginError, BlockingOutboxSavepoint, BlockingOutboxTx, Blocks, CaptureBlocking,
    CommitBlocking, CommitError, Guard, NestBlocking, OutboxSavepoint, ReleaseBlocking, Scope,
    Staged, WriteError,
};
use crate::outbox::Outbox;

impl<S> Outbox<S> {
    /// Opens a transaction with an outbox on the caller's connection.
    pub fn begin_blocking<Conn>(
        &self,
        conn: Conn,
    ) -> Result<BlockingOutboxTx<'_, S, S::Tx>, BeginError>
    where
        S: BeginBlocking<Conn>,
    {
        let tx = self.store().begin_blocking(conn)?;
        Ok(BlockingOutboxTx::new(self.store(), self.writer(), tx))
    }

    /// Writes an event into a transaction the caller holds, and ends later.
    pub fn write_blocking<Tx: ?Sized>(
        &self,
        tx: &Tx,
        event: impl IntoEvent,
    ) -> Result<Staged, WriteError>
    where
        S: CaptureBlocking<Tx>,
    {
        let event = self.writer().check(event)?;
        let id = event.id();
        let rows = self.writer().rows(vec![event]);
        let stamp = self.writer().stamp();
        let born = self.store().insert_blocking(tx, &rows)?;
        Ok(self.staged(id, rows, &born, stamp))
    }

    /// Like [`write_blocking`](Self::write_blocking), with a type and a value that becomes the JSON of the
    /// payload.
    pub fn write_json_blocking<Tx: ?Sized>(
        &self,
        tx: &Tx,
        event_type: impl EventType,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Staged, WriteError>
    where
        S: CaptureBlocking<Tx>,
    {
        self.write_blocking(tx, Event::builder(event_type).json(value))
    }

    /// Writes events into a transaction the caller holds, all or none, in multi-row statements.
    pub fn write_all_blocking<Tx: ?Sized, E: IntoEvent>(
        &self,
        tx: &Tx,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Staged<Vec<EventId>>, WriteError>
    where
        S: CaptureBlocking<Tx>,
    {
        let (ids, rows) = self.checked(events)?;
        let stamp = self.writer().stamp();
        let born = self.store().insert_blocking(tx, &rows)?;
        Ok(self.staged(ids, rows, &born, stamp))
    }
}

impl<S, Tx> BlockingOutboxTx<'_, S, Tx> {
    /// Inserts what was staged, commits, and hands the events to the hot lane.
    pub fn commit(mut self) -> Result<(), CommitError>
    where
        S: CommitBlocking<Tx>,
    {
        let Some(tx) = self.tx.take() else { return Ok(()) };
        self.scope.committing = true;
        let rows = self.rows();
        let stamp = self.writer.stamp();
        let answer = self.store.commit_blocking(tx, &rows);
        self.answered(rows, stamp, answer)
    }

    /// Rolls back.
    pub fn rollback(mut self) -> Result<(), CommitError>
    where
        S: CommitBlocking<Tx>,
    {
        let Some(tx) = self.tx.take() else { return Ok(()) };
        let ended = self.store.rollback_blocking(tx);
        self.scope.staging.rolled_back();
        ended
    }
}

impl<S: ReleaseBlocking<Nested>, Nested> BlockingOutboxSavepoint<'_, S, Nested> {
    /// Keeps what was done since the savepoint.
    pub fn release(mut self) -> Result<(), CommitError> {
        let Some(nested) = self.tx.take() else { return Ok(()) };
        let answer = self.store.release_blocking(nested);
        self.released(answer)
    }

    /// Undoes what was done since the savepoint, and forgets what was staged under it.
    pub fn rollback(mut self) -> Result<(), CommitError> {
        let Some(nested) = self.tx.take() else { return Ok(()) };
        let answer = self.store.roll_back_to_blocking(nested);
        self.rolled_back(answer)
    }
}

impl<S, Tx, Reach: Scope> Guard<'_, S, Tx, Blocks, Reach> {
    /// Sets a savepoint, in a transaction or in another one. Rolling back to it discards what was staged under
    /// it.
    pub fn savepoint<'t>(
        &'t mut self,
    ) -> Result<BlockingOutboxSavepoint<'t, S, S::Nested>, BeginError>
    where
        S: NestBlocking<'t, Tx>,
    {
        let (store, writer) = (self.store, self.writer);
        let (tx, staging) = self.outer();
        Ok(OutboxSavepoint::nested(store, writer, store.savepoint_blocking(tx)?, staging))
    }
}
