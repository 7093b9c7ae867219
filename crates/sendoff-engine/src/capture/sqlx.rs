//! `sqlx`: its transactions on a server, whichever store they are for.
//!
//! Nothing can run between the last insert and COMMIT, because whoever commits has the transaction by value and
//! with it the only way to its connection. A store says what it inserts and how it reads answers ([`SqlxStore`]).
//!
//! Compiled for each version of sqlx, which is the module around it: `sqlx_08.rs`, `sqlx_09.rs`.

use super::driver::{Connection, Database, Error, Pool, Transaction};
use super::ours;
use crate::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, CommitMark, InsertResult, Inserted,
    Join, JoinError, Nest, Nesting, Part, Release, WriteError,
};
use crate::store::{Born, NewRow, StoreError};

/// What a store does in a transaction of sqlx's, which is then one that it captures.
///
/// It names its driver itself, instead of taking it as a parameter, so that whoever wraps a store can still
/// implement the traits of captures for every transaction that the store within takes.
#[diagnostic::on_unimplemented(message = "the outbox on `{Self}` takes none of this sqlx")]
pub trait SqlxStore: Sync {
    /// Sqlx's driver of its database.
    type Driver: Database;

    /// Whether the store can still be used.
    fn check_open(&self) -> Result<(), StoreError>;

    /// What begins a transaction, if it is more than sqlx's own text.
    fn begin_text(&self) -> Option<String> {
        None
    }

    /// Inserts all rows in one statement, as [`Capture::insert`] says.
    fn insert_rows(
        &self,
        conn: &mut ConnectionOf<Self>,
        rows: &[NewRow],
    ) -> impl Future<Output = InsertResult> + Send;

    /// Inserts all rows, and whatever else makes the COMMIT after it a proof.
    fn insert_last(
        &self,
        conn: &mut ConnectionOf<Self>,
        rows: &[NewRow],
    ) -> impl Future<Output = Result<Inserted, CommitError>> + Send;

    /// Carries out a part of an effect, as [`Join::join`] says.
    fn take_part(
        &self,
        conn: &mut ConnectionOf<Self>,
        part: &Part<'_>,
    ) -> impl Future<Output = Result<bool, JoinError>> + Send;

    /// Whether a COMMIT that was answered with this error is known to have been rolled back.
    fn is_rolled_back(error: &Error) -> bool;
}

/// A connection of the store's driver.
pub type ConnectionOf<S> = <<S as SqlxStore>::Driver as Database>::Connection;

impl<'c, S: SqlxStore> Capture<Transaction<'c, S::Driver>> for S {
    async fn insert(&self, tx: &mut Transaction<'c, S::Driver>, rows: &[NewRow]) -> InsertResult {
        self.insert_rows(tx, rows).await
    }
}

impl<'c, S: SqlxStore> Join<Transaction<'c, S::Driver>> for S {
    async fn join(
        &self,
        tx: &mut Transaction<'c, S::Driver>,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        self.take_part(tx, part).await
    }
}

/// Await it to its end: sqlx 0.9.0 returns a connection to the pool with the transaction open if its
/// own `begin` is dropped on the way.
impl<S: SqlxStore> Begin<&Pool<S::Driver>> for S {
    type Tx = Transaction<'static, S::Driver>;

    async fn begin(&self, pool: &Pool<S::Driver>) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        let begun = match self.begin_text() {
            Some(text) => pool.begin_with(ours(text)).await,
            None => pool.begin().await,
        };
        begun.map_err(|error| BeginError(error.into()))
    }
}

/// Begins a transaction on a connection that the caller lends.
pub async fn begin_on<'c, S: SqlxStore>(
    store: &S,
    conn: &'c mut ConnectionOf<S>,
) -> Result<Transaction<'c, S::Driver>, BeginError> {
    store.check_open().map_err(|error| BeginError(error.into()))?;
    // It would be a savepoint, and its release no commit.
    if conn.is_in_transaction() {
        return Err(BeginError("a transaction is open on this connection already".into()));
    }
    let begun = match store.begin_text() {
        Some(text) => conn.begin_with(ours(text)).await,
        None => conn.begin().await,
    };
    begun.map_err(|error| BeginError(error.into()))
}

/// Only for what [`Begin`] returned, with no nested transaction leaked in it: to sqlx a savepoint has
/// the same type, and releasing one proves nothing.
impl<'c, S: SqlxStore> Commit<Transaction<'c, S::Driver>> for S {
    async fn commit(
        &self,
        mut tx: Transaction<'c, S::Driver>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        match insert_last(self, &mut tx, rows).await {
            Ok(inserted) => {
                inserted.committed(CommitMark::of(rows), tx.commit().await, S::is_rolled_back)
            }
            Err(error) => {
                // The first error is the one to tell.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }

    async fn rollback(&self, tx: Transaction<'c, S::Driver>) -> Result<(), CommitError> {
        // One that fails here still cannot commit: the server undoes it when the connection closes.
        tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

async fn insert_last<S: SqlxStore>(
    store: &S,
    tx: &mut Transaction<'_, S::Driver>,
    rows: &[NewRow],
) -> Result<Inserted, CommitError> {
    store.check_open().map_err(|_| CommitError::Refused(WriteError::Closed))?;
    // Where by its own count nothing is open, sqlx answers `Ok` to a commit and sends nothing.
    if !tx.is_in_transaction() {
        return Err(CommitError::RolledBack(WriteError::NoTransaction.into()));
    }
    store.insert_last(tx, rows).await
}

impl<'t, 'c, S: SqlxStore> Nest<'t, Transaction<'c, S::Driver>> for S {
    type Nested = Transaction<'t, S::Driver>;

    fn savepoint(&'t self, tx: &'t mut Transaction<'c, S::Driver>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move {
            // A savepoint whose future was dropped took the transaction with it. The next would be a
            // transaction of its own, and its release a commit.
            if !tx.is_in_transaction() {
                return Err(BeginError(WriteError::NoTransaction.into()));
            }
            tx.begin().await.map_err(|error| BeginError(error.into()))
        })
    }
}

impl<'t, S: SqlxStore> Release<'t, Transaction<'t, S::Driver>> for S {
    fn release(
        &'t self,
        nested: Transaction<'t, S::Driver>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.commit().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }

    fn roll_back_to(
        &'t self,
        nested: Transaction<'t, S::Driver>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(self.rollback(nested))
    }
}
