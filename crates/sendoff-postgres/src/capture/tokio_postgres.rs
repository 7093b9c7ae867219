//! `tokio-postgres`: its transactions, and its client inside a transaction begun by hand.

use ::tokio_postgres::{Client, Transaction};
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, InsertResult, Join, JoinError,
    Nest, Nesting, Part, Release,
};
use sendoff_engine::store::{Born, NewRow};

use super::commit::commit;
use super::insert::{Insert, insert_all};
use super::join::take_part;
use crate::store::PostgresStore;

impl<'c> Capture<Transaction<'c>> for PostgresStore {
    async fn insert(&self, tx: &mut Transaction<'c>, rows: &[NewRow]) -> InsertResult {
        insert_all(self, tx.client(), &Insert::Unnamed, rows).await
    }
}

/// The type proves nothing here; outside a transaction the server inserts nothing, and the answer is
/// [`WriteError::NoTransaction`](sendoff_engine::capture::WriteError::NoTransaction).
impl Capture<Client> for PostgresStore {
    async fn insert(&self, client: &mut Client, rows: &[NewRow]) -> InsertResult {
        insert_all(self, client, &Insert::Unnamed, rows).await
    }
}

impl<'c> Join<Transaction<'c>> for PostgresStore {
    async fn join(&self, tx: &mut Transaction<'c>, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, tx.client(), part).await
    }
}

/// Outside a transaction nothing is done, and the answer is [`JoinError::NoTransaction`].
impl Join<Client> for PostgresStore {
    async fn join(&self, client: &mut Client, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, client, part).await
    }
}

impl<'c> Begin<&'c mut Client> for PostgresStore {
    type Tx = Transaction<'c>;

    async fn begin(&self, client: &'c mut Client) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        client.transaction().await.map_err(|error| BeginError(error.into()))
    }
}

/// Only for what [`Begin`] returned, or `Client::transaction`: to the driver a savepoint has the same
/// type, and COMMIT would end what is around it.
impl<'c> Commit<Transaction<'c>> for PostgresStore {
    async fn commit(&self, tx: Transaction<'c>, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        commit(self, tx, &Insert::Unnamed, rows).await
    }

    async fn rollback(&self, tx: Transaction<'c>) -> Result<(), CommitError> {
        // One that fails here still cannot commit: the server undoes it when the connection closes.
        tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl<'t, 'c> Nest<'t, Transaction<'c>> for PostgresStore {
    type Nested = Transaction<'t>;

    fn savepoint(&'t self, tx: &'t mut Transaction<'c>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move { tx.transaction().await.map_err(|error| BeginError(error.into())) })
    }
}

impl<'t> Release<'t, Transaction<'t>> for PostgresStore {
    fn release(&'t self, nested: Transaction<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.commit().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }

    fn roll_back_to(&'t self, nested: Transaction<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }
}
