//! The capture traits, for both styles of application.
//!
//! A transaction knows the store it was opened on, and its rows go there: as with a connection,
//! which store is asked to insert does not matter.

use std::future::ready;

use super::savepoint::MemorySavepoint;
use super::store::MemoryStore;
use super::tx::MemoryTx;
use crate::capture::{
    Begin, BeginBlocking, BeginError, BoxFuture, Capture, CaptureBlocking, Commit, CommitBlocking,
    CommitError, CommitMark, InsertResult, Join, JoinBlocking, JoinError, Nest, NestBlocking,
    Nesting, Part, Release, ReleaseBlocking, Resolution, Resolve, SendError,
};
use crate::journal::MemoryJournal;
use crate::journal::publish::JoinJournal;
use crate::store::{Born, NewRow, SendStore, StoreError};

impl CaptureBlocking<MemoryTx> for MemoryStore {
    fn insert_blocking(&self, tx: &MemoryTx, rows: &[NewRow]) -> InsertResult {
        tx.stage(rows)
    }
}

impl CaptureBlocking<MemorySavepoint<'_>> for MemoryStore {
    fn insert_blocking(&self, tx: &MemorySavepoint<'_>, rows: &[NewRow]) -> InsertResult {
        tx.tx().stage(rows)
    }
}

impl JoinBlocking<MemoryTx> for MemoryStore {
    fn join_blocking(&self, tx: &MemoryTx, part: &Part<'_>) -> Result<bool, JoinError> {
        tx.join(part)
    }
}

impl JoinBlocking<MemorySavepoint<'_>> for MemoryStore {
    fn join_blocking(&self, tx: &MemorySavepoint<'_>, part: &Part<'_>) -> Result<bool, JoinError> {
        tx.tx().join(part)
    }
}

impl Join<MemoryTx> for MemoryStore {
    async fn join(&self, tx: &mut MemoryTx, part: &Part<'_>) -> Result<bool, JoinError> {
        tx.join(part)
    }
}

impl Join<MemorySavepoint<'_>> for MemoryStore {
    async fn join(&self, tx: &mut MemorySavepoint<'_>, part: &Part<'_>) -> Result<bool, JoinError> {
        tx.tx().join(part)
    }
}

/// A journal in memory has no transactions of its own: its cursors move in those of a store.
impl JoinJournal for MemoryJournal {
    type Store = Self;

    fn joins(&self) -> Result<&Self, JoinError> {
        Ok(self)
    }
}

impl JoinBlocking<MemoryTx> for MemoryJournal {
    fn join_blocking(&self, tx: &MemoryTx, part: &Part<'_>) -> Result<bool, JoinError> {
        match *part {
            Part::Moved(to) => tx.move_cursor(self, to),
            Part::Once { .. } | Part::Done { .. } => Err(JoinError::NotHere),
        }
    }
}

impl JoinBlocking<MemorySavepoint<'_>> for MemoryJournal {
    fn join_blocking(&self, tx: &MemorySavepoint<'_>, part: &Part<'_>) -> Result<bool, JoinError> {
        self.join_blocking(tx.tx(), part)
    }
}

impl Join<MemoryTx> for MemoryJournal {
    async fn join(&self, tx: &mut MemoryTx, part: &Part<'_>) -> Result<bool, JoinError> {
        self.join_blocking(tx, part)
    }
}

impl Join<MemorySavepoint<'_>> for MemoryJournal {
    async fn join(&self, tx: &mut MemorySavepoint<'_>, part: &Part<'_>) -> Result<bool, JoinError> {
        self.join_blocking(tx.tx(), part)
    }
}

impl BeginBlocking<&MemoryStore> for MemoryStore {
    type Tx = MemoryTx;

    fn begin_blocking(&self, conn: &MemoryStore) -> Result<MemoryTx, BeginError> {
        conn.transaction().map_err(|closed| BeginError(closed.into()))
    }
}

impl CommitBlocking<MemoryTx> for MemoryStore {
    fn commit_blocking(&self, tx: MemoryTx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        let born = tx.stage(rows).map_err(CommitError::Refused)?;
        tx.commit()?;
        Ok(born)
    }

    fn rollback_blocking(&self, tx: MemoryTx) -> Result<(), CommitError> {
        tx.rollback();
        Ok(())
    }
}

impl<'t> NestBlocking<'t, MemoryTx> for MemoryStore {
    type Nested = MemorySavepoint<'t>;

    fn savepoint_blocking(&self, tx: &'t mut MemoryTx) -> Result<MemorySavepoint<'t>, BeginError> {
        Ok(tx.savepoint())
    }
}

impl<'t, 'outer: 't> NestBlocking<'t, MemorySavepoint<'outer>> for MemoryStore {
    type Nested = MemorySavepoint<'t>;

    fn savepoint_blocking(
        &self,
        tx: &'t mut MemorySavepoint<'outer>,
    ) -> Result<MemorySavepoint<'t>, BeginError> {
        Ok(tx.savepoint())
    }
}

impl ReleaseBlocking<MemorySavepoint<'_>> for MemoryStore {
    fn release_blocking(&self, nested: MemorySavepoint<'_>) -> Result<(), CommitError> {
        nested.release();
        Ok(())
    }

    fn roll_back_to_blocking(&self, nested: MemorySavepoint<'_>) -> Result<(), CommitError> {
        nested.roll_back();
        Ok(())
    }
}

impl Capture<MemoryTx> for MemoryStore {
    async fn insert(&self, tx: &mut MemoryTx, rows: &[NewRow]) -> InsertResult {
        tx.stage(rows)
    }
}

impl Capture<MemorySavepoint<'_>> for MemoryStore {
    async fn insert(&self, tx: &mut MemorySavepoint<'_>, rows: &[NewRow]) -> InsertResult {
        tx.tx().stage(rows)
    }
}

impl Begin<&MemoryStore> for MemoryStore {
    type Tx = MemoryTx;

    async fn begin(&self, conn: &MemoryStore) -> Result<MemoryTx, BeginError> {
        self.begin_blocking(conn)
    }
}

impl Commit<MemoryTx> for MemoryStore {
    async fn commit(&self, tx: MemoryTx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        self.commit_blocking(tx, rows)
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<(), CommitError> {
        self.rollback_blocking(tx)
    }
}

impl<'t> Nest<'t, MemoryTx> for MemoryStore {
    type Nested = MemorySavepoint<'t>;

    fn savepoint(&'t self, tx: &'t mut MemoryTx) -> Nesting<'t, Self::Nested> {
        Box::pin(ready(Ok(tx.savepoint())))
    }
}

impl<'t, 'outer: 't> Nest<'t, MemorySavepoint<'outer>> for MemoryStore {
    type Nested = MemorySavepoint<'t>;

    fn savepoint(&'t self, tx: &'t mut MemorySavepoint<'outer>) -> Nesting<'t, Self::Nested> {
        Box::pin(ready(Ok(tx.savepoint())))
    }
}

impl SendStore for MemoryStore {
    async fn send(&self, rows: &[NewRow]) -> Result<Vec<Born>, SendError> {
        let tx = self.transaction()?;
        Ok(self.commit_blocking(tx, rows)?)
    }
}

impl Resolve for MemoryStore {
    async fn resolve(&self, mark: &CommitMark) -> Result<Resolution, StoreError> {
        // Transactions commit under one lock: what is not there by now never will be.
        let there = self.with(|table, _| mark.ids.iter().any(|&id| table.contains(id)))?;
        Ok(match (there, self.keep()) {
            (true, _) => Resolution::Committed,
            (false, Some(_)) => Resolution::RolledBack,
            (false, None) => Resolution::NotYetKnown,
        })
    }
}

impl<'t> Release<'t, MemorySavepoint<'t>> for MemoryStore {
    fn release(&'t self, nested: MemorySavepoint<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(ready(self.release_blocking(nested)))
    }

    fn roll_back_to(
        &'t self,
        nested: MemorySavepoint<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(ready(self.roll_back_to_blocking(nested)))
    }
}
