//! `deadpool-postgres`: its transactions, and ours on a connection from its pool. The connection
//! remembers statements, so the insert is planned once.

use ::tokio_postgres::{Client, Error};
use deadpool_postgres::{Client as Pooled, GenericClient, Transaction as DeadpoolTransaction};
use sendoff_engine::capture::{
    Begin, BeginError, Capture, InsertResult, Join, JoinError, Part, WriteError,
};
use sendoff_engine::store::NewRow;

use super::insert::{Insert, Statements, insert_all, refused};
use super::join::take_part;
use super::prepared::PreparedTransaction;
use crate::options::Doorbell;
use crate::store::PostgresStore;

impl<'c> Capture<DeadpoolTransaction<'c>> for PostgresStore {
    async fn insert(&self, tx: &mut DeadpoolTransaction<'c>, rows: &[NewRow]) -> InsertResult {
        self.check_open().map_err(|_| WriteError::Closed)?;
        let insert = remembered(self, tx).await.map_err(|error| refused(self, error))?;
        insert_all(self, tx.client(), &insert, rows).await
    }
}

impl<'c> Join<DeadpoolTransaction<'c>> for PostgresStore {
    async fn join(
        &self,
        tx: &mut DeadpoolTransaction<'c>,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        take_part(self, tx.client(), part).await
    }
}

impl<'c> Begin<&'c mut Pooled> for PostgresStore {
    type Tx = PreparedTransaction<'c>;

    async fn begin(&self, client: &'c mut Pooled) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        let begun = async {
            let insert = remembered(self, client).await?;
            // The driver's own transaction, not the pool's wrapper: the wrapper could not be
            // forgotten after a commit without leaking a share of the statement cache.
            let client: &mut Client = client;
            PreparedTransaction::begin(client, insert).await
        };
        begun.await.map_err(|error| BeginError(error.into()))
    }
}

/// The statements that the connection remembers. Not where a transaction pooler may give every
/// transaction another session.
pub(super) async fn remembered(
    store: &PostgresStore,
    client: &impl GenericClient,
) -> Result<Insert, Error> {
    let (many, one) = (&store.sql().insert, &store.sql().insert_one);
    let one_due = &store.sql().insert_one_due;
    Ok(match store.doorbell() {
        Doorbell::Off => Insert::Unnamed,
        Doorbell::On => Insert::Prepared(Statements {
            many: client.prepare_typed_cached(&many.text, many.types).await?,
            one: client.prepare_typed_cached(&one.text, one.types).await?,
            one_due: client.prepare_typed_cached(&one_due.text, one_due.types).await?,
        }),
    })
}
