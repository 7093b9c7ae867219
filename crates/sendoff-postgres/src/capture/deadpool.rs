//! `deadpool-postgres`: its transactions, and ours on a connection from its pool. The connection
//! remembers statements, so the insert is planned once.

use ::tokio_postgres::Client;
use deadpool_postgres::{Client as Pooled, Transaction as DeadpoolTransaction};
use sendoff_engine::capture::{Begin, BeginError, Capture, WriteError};
use sendoff_engine::store::{Born, NewRow};

use super::insert::{Insert, insert_all, refused};
use super::prepared::PreparedTransaction;
use crate::options::Doorbell;
use crate::store::PostgresStore;

impl<'c> Capture<DeadpoolTransaction<'c>> for PostgresStore {
    async fn insert(
        &self,
        tx: &mut DeadpoolTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, WriteError> {
        self.check_open().map_err(|_| WriteError::Closed)?;
        let (many, one) = (&self.sql().insert, &self.sql().insert_one);
        let ringing = &self.sql().insert_one_ringing;
        let prepared = async {
            Ok(match self.doorbell() {
                // A transaction pooler may give every transaction another session.
                Doorbell::Off => Insert::Unnamed,
                Doorbell::On => Insert::Prepared {
                    many: tx.prepare_typed_cached(&many.text, many.types).await?,
                    one: tx.prepare_typed_cached(&one.text, one.types).await?,
                    ringing: tx.prepare_typed_cached(&ringing.text, ringing.types).await?,
                },
            })
        };
        let insert = prepared.await.map_err(|error| refused(self, error))?;
        insert_all(self, tx.client(), &insert, rows).await
    }
}

impl<'c> Begin<&'c mut Pooled> for PostgresStore {
    type Tx = PreparedTransaction<'c>;

    async fn begin(&self, client: &'c mut Pooled) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        let begun = async {
            let (many, one) = (&self.sql().insert, &self.sql().insert_one);
            let ringing = &self.sql().insert_one_ringing;
            let insert = match self.doorbell() {
                Doorbell::Off => Insert::Unnamed,
                Doorbell::On => Insert::Prepared {
                    many: client.prepare_typed_cached(&many.text, many.types).await?,
                    one: client.prepare_typed_cached(&one.text, one.types).await?,
                    ringing: client.prepare_typed_cached(&ringing.text, ringing.types).await?,
                },
            };
            // The driver's own transaction, not the pool's wrapper: the wrapper could not be
            // forgotten after a commit without leaking a share of the statement cache.
            let client: &mut Client = client;
            PreparedTransaction::begin(client, insert).await
        };
        begun.await.map_err(|error| BeginError(error.into()))
    }
}
