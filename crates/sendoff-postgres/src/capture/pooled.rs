//! Transactions of ours on a connection that they take from a pool of `deadpool-postgres`, and keep until
//! they end.
//!
//! The driver's own transaction borrows its connection, and could not leave the function that took it from
//! the pool. These are begun and ended by statements instead. They lend the connection by shared reference
//! only, with which nobody can begin another transaction of the driver's.

use std::fmt;
use std::ops::Deref;

use ::tokio_postgres::{Client, Error};
use deadpool_postgres::{Client as Connection, Pool};
use futures_util::FutureExt;
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, InsertResult, Join, JoinError,
    Nest, Nesting, Part, Release,
};
use sendoff_engine::store::{Born, NewRow};

use super::commit::{Uncommitted, commit};
use super::deadpool::remembered;
use super::insert::{Insert, insert_all};
use super::join::take_part;
use crate::store::PostgresStore;

/// A transaction on a connection from a pool. Dereferences to that connection; dropped, it rolls back, and
/// the connection goes back to the pool.
pub struct PooledTransaction {
    connection: Connection,
    insert: Insert,
    /// Whether a drop has to roll back.
    open: bool,
}

impl PooledTransaction {
    async fn begin(connection: Connection, insert: Insert) -> Result<Self, Error> {
        let begin = match &insert {
            // Which `insert_one` knows it by.
            Insert::Prepared(_) => "start transaction deferrable",
            Insert::Unnamed => "start transaction",
        };
        // Before it is sent: a future that is dropped meanwhile must not leave it open in the pool.
        let tx = Self { connection, insert, open: true };
        tx.connection.batch_execute(begin).await?;
        Ok(tx)
    }
}

impl Deref for PooledTransaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for PooledTransaction {
    fn drop(&mut self) {
        if self.open {
            send(&self.connection, "rollback");
        }
    }
}

impl fmt::Debug for PooledTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PooledTransaction")
    }
}

/// Sends a statement whose answer nobody waits for. The driver sends with the first poll, so it goes before
/// whatever the next one does who has the connection.
fn send(client: &Client, statement: &str) {
    let _ = client.batch_execute(statement).now_or_never();
}

impl Uncommitted for PooledTransaction {
    fn client(&self) -> &Client {
        &self.connection
    }

    fn commit_was_sent(mut self) {
        self.open = false;
    }
}

impl Begin<&Pool> for PostgresStore {
    type Tx = PooledTransaction;

    async fn begin(&self, pool: &Pool) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        let connection = pool.get().await.map_err(|error| BeginError(error.into()))?;
        let begun = async {
            let insert = remembered(self, &connection).await?;
            PooledTransaction::begin(connection, insert).await
        };
        begun.await.map_err(|error| BeginError(error.into()))
    }
}

impl Capture<PooledTransaction> for PostgresStore {
    async fn insert(&self, tx: &mut PooledTransaction, rows: &[NewRow]) -> InsertResult {
        insert_all(self, tx.client(), &tx.insert, rows).await
    }
}

impl Join<PooledTransaction> for PostgresStore {
    async fn join(&self, tx: &mut PooledTransaction, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, tx.client(), part).await
    }
}

impl<'t> Join<PooledSavepoint<'t>> for PostgresStore {
    async fn join(&self, tx: &mut PooledSavepoint<'t>, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, tx.connection, part).await
    }
}

impl Commit<PooledTransaction> for PostgresStore {
    async fn commit(
        &self,
        tx: PooledTransaction,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let insert = tx.insert.clone();
        commit(self, tx, &insert, rows).await
    }

    async fn rollback(&self, mut tx: PooledTransaction) -> Result<(), CommitError> {
        let ended = tx.connection.batch_execute("rollback").await;
        tx.open = false;
        // One that fails here still cannot commit: the server undoes it when the connection closes.
        ended.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

/// A savepoint in a [`PooledTransaction`]. Dereferences to its connection; dropped, it rolls back to where
/// it was set.
pub struct PooledSavepoint<'t> {
    connection: &'t Connection,
    depth: u32,
    /// Whether a drop has to roll back.
    open: bool,
}

impl<'t> PooledSavepoint<'t> {
    async fn set(connection: &'t Connection, depth: u32) -> Result<Self, BeginError> {
        let mut savepoint = Self { connection, depth, open: true };
        let set = connection.batch_execute(&format!("savepoint {}", savepoint.name())).await;
        // What was never set must not be rolled back to.
        savepoint.open = set.is_ok();
        set.map(|()| savepoint).map_err(|error| BeginError(error.into()))
    }

    fn name(&self) -> String {
        format!("sendoff_{}", self.depth)
    }

    /// Released as well: a savepoint of that name which stayed could be rolled back to in the place of one
    /// that cannot be set, and bring a failed transaction back to life.
    fn undo(&self) -> String {
        let name = self.name();
        format!("rollback to savepoint {name}; release savepoint {name}")
    }

    async fn end(mut self, statement: &str) -> Result<(), CommitError> {
        self.open = false;
        let ended = self.connection.batch_execute(statement).await;
        ended.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl Deref for PooledSavepoint<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for PooledSavepoint<'_> {
    fn drop(&mut self) {
        if self.open {
            send(self.connection, &self.undo());
        }
    }
}

impl fmt::Debug for PooledSavepoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PooledSavepoint")
    }
}

impl<'t> Nest<'t, PooledTransaction> for PostgresStore {
    type Nested = PooledSavepoint<'t>;

    fn savepoint(&'t self, tx: &'t mut PooledTransaction) -> Nesting<'t, Self::Nested> {
        Box::pin(PooledSavepoint::set(&tx.connection, 1))
    }
}

impl<'t, 'c> Nest<'t, PooledSavepoint<'c>> for PostgresStore {
    type Nested = PooledSavepoint<'t>;

    fn savepoint(&'t self, outer: &'t mut PooledSavepoint<'c>) -> Nesting<'t, Self::Nested> {
        Box::pin(PooledSavepoint::set(outer.connection, outer.depth + 1))
    }
}

impl<'t> Release<'t, PooledSavepoint<'t>> for PostgresStore {
    fn release(&'t self, nested: PooledSavepoint<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            let statement = format!("release savepoint {}", nested.name());
            nested.end(&statement).await
        })
    }

    fn roll_back_to(
        &'t self,
        nested: PooledSavepoint<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            let statement = nested.undo();
            nested.end(&statement).await
        })
    }
}
