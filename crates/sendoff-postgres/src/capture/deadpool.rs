//! `deadpool-postgres`: its transactions, and ours on a connection from its pool. The connection
//! remembers statements, so the insert is planned once.

use std::fmt;
use std::ops::{Deref, DerefMut};

use ::tokio_postgres::{Error, Transaction};
use deadpool_postgres::{Client as Pooled, Transaction as DeadpoolTransaction};
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, Nest, WriteError,
};
use sendoff_engine::store::{Born, NewRow};

use super::commit::commit;
use super::insert::{Insert, insert_all, refused};
use crate::options::Doorbell;
use crate::store::PostgresStore;

impl<'c> Capture<DeadpoolTransaction<'c>> for PostgresStore {
    async fn insert(
        &self,
        tx: &mut DeadpoolTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, WriteError> {
        self.check_open().map_err(|_| WriteError::Closed)?;
        let statement = &self.sql().insert;
        let insert = match self.doorbell() {
            Doorbell::Off => Insert::Unnamed,
            Doorbell::On => Insert::Prepared(
                tx.prepare_typed_cached(&statement.text, statement.types)
                    .await
                    .map_err(|error| refused(self, error))?,
            ),
        };
        insert_all(self, tx.client(), &insert, rows).await
    }
}

/// A transaction on a connection from a pool, with the insert prepared. Dereferences to the driver's
/// own; dropped, it rolls back.
pub struct PooledTransaction<'c> {
    tx: Transaction<'c>,
    insert: Insert,
}

impl<'c> Deref for PooledTransaction<'c> {
    type Target = Transaction<'c>;

    fn deref(&self) -> &Transaction<'c> {
        &self.tx
    }
}

impl<'c> DerefMut for PooledTransaction<'c> {
    fn deref_mut(&mut self) -> &mut Transaction<'c> {
        &mut self.tx
    }
}

impl fmt::Debug for PooledTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PooledTransaction")
    }
}

impl<'c> Begin<&'c mut Pooled> for PostgresStore {
    type Tx = PooledTransaction<'c>;

    async fn begin(&self, client: &'c mut Pooled) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        let begun = async {
            let statement = &self.sql().insert;
            let insert = match self.doorbell() {
                Doorbell::Off => Insert::Unnamed,
                Doorbell::On => Insert::Prepared(
                    client.prepare_typed_cached(&statement.text, statement.types).await?,
                ),
            };
            // The driver's own transaction, not the pool's wrapper: the wrapper could not be
            // forgotten after a commit without leaking a share of the statement cache.
            let client: &mut ::tokio_postgres::Client = client;
            Ok::<_, Error>(PooledTransaction { tx: client.transaction().await?, insert })
        };
        begun.await.map_err(|error| BeginError(error.into()))
    }
}

impl<'c> Commit<PooledTransaction<'c>> for PostgresStore {
    async fn commit(
        &self,
        tx: PooledTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let PooledTransaction { tx, insert } = tx;
        commit(self, tx, &insert, rows).await
    }

    async fn rollback(&self, tx: PooledTransaction<'c>) -> Result<(), CommitError> {
        tx.tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl<'t, 'c> Nest<'t, PooledTransaction<'c>> for PostgresStore {
    type Nested = Transaction<'t>;

    fn savepoint(
        &'t self,
        tx: &'t mut PooledTransaction<'c>,
    ) -> BoxFuture<'t, Result<Self::Nested, BeginError>> {
        self.savepoint(&mut tx.tx)
    }
}
