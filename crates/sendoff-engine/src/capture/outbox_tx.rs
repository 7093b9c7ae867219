//! The guard around a driver's transaction or savepoint, whatever the style of the driver.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use sendoff_core::{Event, EventId, EventType, IntoEvent};
use serde::Serialize;

use super::staging::{Mark, Staging, Writer};
use super::{CommitError, WriteError};
use crate::source::Stamp;
use crate::store::{Born, NewRow};

/// The style of a driver whose calls are awaited.
#[derive(Debug)]
pub enum Awaits {}

/// The style of a driver whose calls block.
#[derive(Debug)]
pub enum Blocks {}

/// A transaction with an outbox: dereferences to the driver's own.
///
/// Events are checked by [`emit`](Self::emit) and inserted by `commit`, last of all. Dropped without
/// a commit, it rolls back.
#[must_use = "a transaction that is dropped is rolled back"]
pub struct OutboxTx<'o, S, Tx, Style = Awaits> {
    pub(super) store: &'o S,
    pub(super) writer: &'o Writer,
    /// Taken by what ends the transaction, and that consumes the guard.
    pub(super) tx: Option<Tx>,
    pub(super) staging: Staging,
    /// Whether COMMIT was sent: from then on only its answer tells how the transaction ended.
    pub(super) committing: bool,
    style: PhantomData<fn() -> Style>,
}

/// [`OutboxTx`] for a driver that blocks.
pub type BlockingOutboxTx<'o, S, Tx> = OutboxTx<'o, S, Tx, Blocks>;

const ENDED: &str = "whatever takes the transaction consumes its guard";

impl<'o, S, Tx, Style> OutboxTx<'o, S, Tx, Style> {
    pub(crate) fn new(store: &'o S, writer: &'o Writer, tx: Tx) -> Self {
        let staging = Staging::default();
        Self { store, writer, tx: Some(tx), staging, committing: false, style: PhantomData }
    }

    /// Checks an event now and stages it for the commit.
    pub fn emit(&mut self, event: impl IntoEvent) -> Result<EventId, WriteError> {
        Ok(self.staging.stage(self.writer.check(event)?))
    }

    /// Like [`emit`](Self::emit), with a type and a value that becomes the JSON of the payload.
    pub fn emit_json(
        &mut self,
        event_type: impl EventType,
        value: &(impl Serialize + ?Sized),
    ) -> Result<EventId, WriteError> {
        self.emit(Event::builder(event_type).json(value))
    }

    /// Runs `hook` after a successful commit.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.staging.after_commit(hook);
    }

    /// Runs `hook` after a rollback, also one by drop.
    pub fn after_rollback(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.staging.after_rollback(hook);
    }

    pub(super) fn rows(&mut self) -> Vec<NewRow> {
        self.writer.rows(self.staging.take_events())
    }

    /// What follows the answer to a COMMIT; `stamp` was made before it was sent.
    pub(super) fn answered(
        mut self,
        rows: Vec<NewRow>,
        stamp: Stamp,
        answer: Result<Vec<Born>, CommitError>,
    ) -> Result<(), CommitError> {
        match answer {
            Ok(born) => {
                self.writer.committed(rows, &born, stamp);
                self.staging.committed();
                Ok(())
            }
            Err(error) => {
                match error {
                    CommitError::Unknown { .. } => self.staging.unknown(),
                    _ => self.staging.rolled_back(),
                }
                Err(error)
            }
        }
    }
}

impl<S, Tx, Style> Deref for OutboxTx<'_, S, Tx, Style> {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        self.tx.as_ref().expect(ENDED)
    }
}

impl<S, Tx, Style> DerefMut for OutboxTx<'_, S, Tx, Style> {
    fn deref_mut(&mut self) -> &mut Tx {
        self.tx.as_mut().expect(ENDED)
    }
}

impl<S, Tx, Style> Drop for OutboxTx<'_, S, Tx, Style> {
    fn drop(&mut self) {
        // The driver's own drop rolls back; hooks run after it.
        drop(self.tx.take());
        if !self.committing {
            self.staging.rolled_back();
        }
    }
}

impl<S, Tx, Style> fmt::Debug for OutboxTx<'_, S, Tx, Style> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutboxTx")
    }
}

/// A savepoint with an outbox: dereferences to the driver's nested transaction. Dropped without
/// `release`, it rolls back, and what was staged under it is forgotten.
#[must_use = "a savepoint that is dropped is rolled back"]
pub struct OutboxSavepoint<'t, S, Nested, Style = Awaits> {
    pub(super) store: &'t S,
    pub(super) writer: &'t Writer,
    pub(super) nested: Option<Nested>,
    pub(super) staging: &'t mut Staging,
    mark: Mark,
    /// Whether the driver said how it ended.
    ended: bool,
    style: PhantomData<fn() -> Style>,
}

/// [`OutboxSavepoint`] for a driver that blocks.
pub type BlockingOutboxSavepoint<'t, S, Nested> = OutboxSavepoint<'t, S, Nested, Blocks>;

impl<'t, S, Nested, Style> OutboxSavepoint<'t, S, Nested, Style> {
    pub(super) fn new(
        store: &'t S,
        writer: &'t Writer,
        nested: Nested,
        staging: &'t mut Staging,
    ) -> Self {
        let mark = staging.mark();
        let nested = Some(nested);
        Self { store, writer, nested, staging, mark, ended: false, style: PhantomData }
    }

    /// Checks an event now and stages it for the commit, if this savepoint is released.
    pub fn emit(&mut self, event: impl IntoEvent) -> Result<EventId, WriteError> {
        Ok(self.staging.stage(self.writer.check(event)?))
    }

    /// Like [`emit`](Self::emit), with a type and a value that becomes the JSON of the payload.
    pub fn emit_json(
        &mut self,
        event_type: impl EventType,
        value: &(impl Serialize + ?Sized),
    ) -> Result<EventId, WriteError> {
        self.emit(Event::builder(event_type).json(value))
    }

    /// Runs `hook` after a successful commit of the whole transaction.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.staging.after_commit(hook);
    }

    /// Runs `hook` after a rollback, of this savepoint or of what is around it.
    pub fn after_rollback(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.staging.after_rollback(hook);
    }

    /// What follows the driver's answer to a release.
    pub(super) fn released(mut self, answer: Result<(), CommitError>) -> Result<(), CommitError> {
        self.ended = true;
        if answer.is_err() {
            self.staging.rolled_back_to(self.mark);
        }
        answer
    }

    /// What follows the driver's answer to a rollback, whatever it is: a savepoint that could not be
    /// rolled back must not emit either.
    pub(super) fn rolled_back(
        mut self,
        answer: Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        self.ended = true;
        self.staging.rolled_back_to(self.mark);
        answer
    }
}

impl<S, Nested, Style> Deref for OutboxSavepoint<'_, S, Nested, Style> {
    type Target = Nested;

    fn deref(&self) -> &Nested {
        self.nested.as_ref().expect(ENDED)
    }
}

impl<S, Nested, Style> DerefMut for OutboxSavepoint<'_, S, Nested, Style> {
    fn deref_mut(&mut self) -> &mut Nested {
        self.nested.as_mut().expect(ENDED)
    }
}

impl<S, Nested, Style> Drop for OutboxSavepoint<'_, S, Nested, Style> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        match self.nested.take() {
            Some(nested) => drop(nested),
            // Somebody stopped waiting for the answer, and it may be either.
            None => self.staging.tear(),
        }
        self.staging.rolled_back_to(self.mark);
    }
}

impl<S, Nested, Style> fmt::Debug for OutboxSavepoint<'_, S, Nested, Style> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutboxSavepoint")
    }
}
