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
/// Events are checked by [`emit`](Guard::emit) and inserted by `commit`, last of all. Dropped without
/// a commit, it rolls back.
pub type OutboxTx<'o, S, Tx, Style = Awaits> = Guard<'o, S, Tx, Style, Whole>;

/// [`OutboxTx`] for a driver that blocks.
pub type BlockingOutboxTx<'o, S, Tx> = OutboxTx<'o, S, Tx, Blocks>;

/// A savepoint with an outbox: dereferences to the driver's nested transaction. Dropped without
/// `release`, it rolls back, and what was staged under it is forgotten.
pub type OutboxSavepoint<'t, S, Nested, Style = Awaits> = Guard<'t, S, Nested, Style, Within<'t>>;

/// [`OutboxSavepoint`] for a driver that blocks.
pub type BlockingOutboxSavepoint<'t, S, Nested> = OutboxSavepoint<'t, S, Nested, Blocks>;

/// What is around a driver's transaction ([`OutboxTx`]) or its savepoint ([`OutboxSavepoint`]).
#[must_use = "what is dropped without its end is rolled back"]
pub struct Guard<'o, S, Tx, Style, Reach: Scope> {
    pub(super) store: &'o S,
    pub(super) writer: &'o Writer,
    /// Taken by what ends the transaction, and that consumes the guard.
    pub(super) tx: Option<Tx>,
    pub(super) scope: Reach,
    style: PhantomData<fn() -> Style>,
}

/// How much a guard ends: a whole transaction, or what was done since a savepoint.
pub trait Scope {
    #[doc(hidden)]
    fn staging(&mut self) -> &mut Staging;

    /// The guard is dropped, and the driver's own drop has rolled back, if there was still anything to.
    #[doc(hidden)]
    fn dropped(&mut self, was_there: bool);
}

/// The scope of a whole transaction.
#[derive(Debug, Default)]
pub struct Whole {
    pub(super) staging: Staging,
    /// Whether COMMIT was sent: from then on only its answer tells how the transaction ended.
    pub(super) committing: bool,
}

impl Scope for Whole {
    fn staging(&mut self) -> &mut Staging {
        &mut self.staging
    }

    fn dropped(&mut self, _: bool) {
        if !self.committing {
            self.staging.rolled_back();
        }
    }
}

/// The scope of a savepoint.
#[derive(Debug)]
pub struct Within<'t> {
    staging: &'t mut Staging,
    mark: Mark,
    /// Whether the driver said how it ended.
    ended: bool,
}

impl Scope for Within<'_> {
    fn staging(&mut self) -> &mut Staging {
        self.staging
    }

    fn dropped(&mut self, was_there: bool) {
        if self.ended {
            return;
        }
        if !was_there {
            // Somebody stopped waiting for the answer, and it may be either.
            self.staging.tear();
        }
        self.staging.rolled_back_to(self.mark);
    }
}

const ENDED: &str = "whatever takes the transaction consumes its guard";

impl<S, Tx, Style, Reach: Scope> Guard<'_, S, Tx, Style, Reach> {
    /// Checks an event now and stages it for the commit; in a savepoint, if that is released.
    pub fn emit(&mut self, event: impl IntoEvent) -> Result<EventId, WriteError> {
        let event = self.writer.check(event)?;
        Ok(self.scope.staging().stage(event))
    }

    /// Like [`emit`](Self::emit), with a type and a value that becomes the JSON of the payload.
    pub fn emit_json(
        &mut self,
        event_type: impl EventType,
        value: &(impl Serialize + ?Sized),
    ) -> Result<EventId, WriteError> {
        self.emit(Event::builder(event_type).json(value))
    }

    /// The store that events go to.
    pub fn store(&self) -> &S {
        self.store
    }

    /// Runs `hook` after a successful commit of the whole transaction.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.scope.staging().after_commit(hook);
    }

    /// Runs `hook` after a rollback, also one by drop: of this or of what is around it.
    pub fn after_rollback(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.scope.staging().after_rollback(hook);
    }

    /// What to set a savepoint in, and what to make a guard of it with.
    pub(super) fn outer(&mut self) -> (&mut Tx, &mut Staging) {
        (self.tx.as_mut().expect(ENDED), self.scope.staging())
    }
}

impl<'o, S, Tx, Style> OutboxTx<'o, S, Tx, Style> {
    pub(crate) fn new(store: &'o S, writer: &'o Writer, tx: Tx) -> Self {
        Self { store, writer, tx: Some(tx), scope: Whole::default(), style: PhantomData }
    }

    pub(super) fn rows(&mut self) -> Vec<NewRow> {
        self.writer.rows(self.scope.staging.take_events())
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
                self.scope.staging.committed();
                Ok(())
            }
            Err(error) => {
                match error {
                    CommitError::Unknown { .. } => self.scope.staging.unknown(),
                    _ => self.scope.staging.rolled_back(),
                }
                Err(error)
            }
        }
    }
}

impl<'t, S, Nested, Style> OutboxSavepoint<'t, S, Nested, Style> {
    pub(super) fn nested(
        store: &'t S,
        writer: &'t Writer,
        nested: Nested,
        staging: &'t mut Staging,
    ) -> Self {
        let mark = staging.mark();
        let scope = Within { staging, mark, ended: false };
        Self { store, writer, tx: Some(nested), scope, style: PhantomData }
    }

    /// What follows the driver's answer to a release.
    pub(super) fn released(mut self, answer: Result<(), CommitError>) -> Result<(), CommitError> {
        self.scope.ended = true;
        if answer.is_err() {
            self.scope.staging.rolled_back_to(self.scope.mark);
        }
        answer
    }

    /// What follows the driver's answer to a rollback, whatever it is: a savepoint that could not be
    /// rolled back must not emit either.
    pub(super) fn rolled_back(
        mut self,
        answer: Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        self.scope.ended = true;
        self.scope.staging.rolled_back_to(self.scope.mark);
        answer
    }
}

impl<S, Tx, Style, Reach: Scope> Deref for Guard<'_, S, Tx, Style, Reach> {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        self.tx.as_ref().expect(ENDED)
    }
}

impl<S, Tx, Style, Reach: Scope> DerefMut for Guard<'_, S, Tx, Style, Reach> {
    fn deref_mut(&mut self) -> &mut Tx {
        self.tx.as_mut().expect(ENDED)
    }
}

impl<S, Tx, Style, Reach: Scope> Drop for Guard<'_, S, Tx, Style, Reach> {
    fn drop(&mut self) {
        // The driver's own drop rolls back; hooks run after it.
        let was_there = self.tx.take().is_some();
        self.scope.dropped(was_there);
    }
}

impl<S, Tx, Style, Reach: Scope> fmt::Debug for Guard<'_, S, Tx, Style, Reach> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}
