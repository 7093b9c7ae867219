//! Transactions on a connection that knows the insert already.
//!
//! Planning the insert anew costs the server about as much as carrying it out. A pool's connection
//! remembers statements; a [`PreparedClient`] does so for a connection that stands alone.

use std::fmt;
use std::ops::{Deref, DerefMut};

use ::tokio_postgres::{Client, Error, Transaction};
use sendoff_engine::capture::{
    Begin, BeginError, Capture, Commit, CommitError, InsertResult, Join, JoinError, Nest, Nesting,
    Part,
};
use sendoff_engine::store::{Born, NewRow, StoreError};

use super::commit::commit;
use super::insert::{Insert, Statements, insert_all};
use super::join::take_part;
use crate::error::failed;
use crate::options::Doorbell;
use crate::sql::Statement;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Prepares the insert on a connection of the application's, so that every transaction on it
    /// writes events for half the price. Connections from a `deadpool` pool need no such care.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     outbox: sendoff_engine::Outbox<sendoff_postgres::PostgresStore>,
    /// #     client: tokio_postgres::Client,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut client = outbox.store().prepare(client).await?;
    /// let mut tx = outbox.begin(&mut client).await?;
    /// tx.emit(("order.placed", "{}"))?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn prepare(&self, client: Client) -> Result<PreparedClient, StoreError> {
        self.check_open()?;
        let prepare = async |statement: &Statement| {
            client.prepare_typed(&statement.text, statement.types).await.map_err(failed)
        };
        let insert = match self.doorbell() {
            Doorbell::Off => Insert::Unnamed,
            Doorbell::On => Insert::Prepared(Statements {
                many: prepare(&self.sql().insert).await?,
                one: prepare(&self.sql().insert_one).await?,
                one_due: prepare(&self.sql().insert_one_due).await?,
            }),
        };
        Ok(PreparedClient { client, insert })
    }
}

/// A connection of the application's with the insert prepared. Dereferences to the driver's own.
pub struct PreparedClient {
    client: Client,
    insert: Insert,
}

impl Deref for PreparedClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for PreparedClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl fmt::Debug for PreparedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreparedClient")
    }
}

/// A transaction on a connection with the insert prepared. Dereferences to the driver's own; dropped,
/// it rolls back.
pub struct PreparedTransaction<'c> {
    tx: Transaction<'c>,
    insert: Insert,
}

impl<'c> PreparedTransaction<'c> {
    pub(super) async fn begin(client: &'c mut Client, insert: Insert) -> Result<Self, Error> {
        let tx = match &insert {
            // Which `insert_one` knows it by.
            Insert::Prepared(_) => client.build_transaction().deferrable(true).start().await?,
            Insert::Unnamed => client.transaction().await?,
        };
        Ok(Self { tx, insert })
    }
}

impl<'c> Deref for PreparedTransaction<'c> {
    type Target = Transaction<'c>;

    fn deref(&self) -> &Transaction<'c> {
        &self.tx
    }
}

impl<'c> DerefMut for PreparedTransaction<'c> {
    fn deref_mut(&mut self) -> &mut Transaction<'c> {
        &mut self.tx
    }
}

impl fmt::Debug for PreparedTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreparedTransaction")
    }
}

impl<'c> Begin<&'c mut PreparedClient> for PostgresStore {
    type Tx = PreparedTransaction<'c>;

    async fn begin(&self, conn: &'c mut PreparedClient) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        let PreparedClient { client, insert } = conn;
        let begun = PreparedTransaction::begin(client, insert.clone()).await;
        begun.map_err(|error| BeginError(error.into()))
    }
}

impl<'c> Capture<PreparedTransaction<'c>> for PostgresStore {
    async fn insert(&self, tx: &mut PreparedTransaction<'c>, rows: &[NewRow]) -> InsertResult {
        insert_all(self, tx.tx.client(), &tx.insert, rows).await
    }
}

impl<'c> Join<PreparedTransaction<'c>> for PostgresStore {
    async fn join(
        &self,
        tx: &mut PreparedTransaction<'c>,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        take_part(self, tx.tx.client(), part).await
    }
}

impl<'c> Commit<PreparedTransaction<'c>> for PostgresStore {
    async fn commit(
        &self,
        tx: PreparedTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let PreparedTransaction { tx, insert } = tx;
        commit(self, tx, &insert, rows).await
    }

    async fn rollback(&self, tx: PreparedTransaction<'c>) -> Result<(), CommitError> {
        tx.tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl<'t, 'c> Nest<'t, PreparedTransaction<'c>> for PostgresStore {
    type Nested = Transaction<'t>;

    fn savepoint(&'t self, tx: &'t mut PreparedTransaction<'c>) -> Nesting<'t, Self::Nested> {
        self.savepoint(&mut tx.tx)
    }
}
