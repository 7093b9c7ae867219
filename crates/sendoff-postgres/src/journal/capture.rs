//! Appending in the application's own transactions.
//!
//! The store's own drivers are here; those of others, each behind a feature, call the same function in
//! the database.

#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx-08")]
mod sqlx_08;
#[cfg(feature = "sqlx")]
mod sqlx_09;

use ::tokio_postgres::{Client, Transaction};
use deadpool_postgres::Transaction as DeadpoolTransaction;
use futures_util::future::join;
use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};

use super::append::{Params, receipts, refused_by_driver};
use super::store::PostgresJournal;
use crate::capture::{PooledTransaction, PreparedTransaction};
use crate::link::query_unnamed;

impl<'c> AppendIn<Transaction<'c>> for PostgresJournal {
    async fn append_in(
        &self,
        tx: &mut Transaction<'c>,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx.client(), append).await
    }
}

/// The type proves nothing here; outside a transaction nothing is appended, and the answer is
/// [`AppendError::NoTransaction`].
impl AppendIn<Client> for PostgresJournal {
    async fn append_in(
        &self,
        client: &mut Client,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, client, append).await
    }
}

impl<'c> AppendIn<PreparedTransaction<'c>> for PostgresJournal {
    async fn append_in(
        &self,
        tx: &mut PreparedTransaction<'c>,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx.client(), append).await
    }
}

impl AppendIn<PooledTransaction> for PostgresJournal {
    async fn append_in(
        &self,
        tx: &mut PooledTransaction,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx, append).await
    }
}

impl<'c> AppendIn<DeadpoolTransaction<'c>> for PostgresJournal {
    async fn append_in(
        &self,
        tx: &mut DeadpoolTransaction<'c>,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx.client(), append).await
    }
}

/// One round trip: the mark that a transaction is open, and the append. The function keeps its plans
/// in the session, so nothing has to be prepared.
async fn append_on(
    journal: &PostgresJournal,
    client: &Client,
    append: &Append,
) -> Result<Vec<Receipt>, AppendError> {
    journal.check_open()?;
    let sql = journal.sql();
    let params = Params::new(journal, append)?;
    let params = params.in_order();
    let mark = client.batch_execute(&sql.in_transaction.text);
    let (marked, rows) = join(mark, query_unnamed(client, &sql.journal.append_in, &params)).await;
    marked.map_err(refused_by_driver)?;
    receipts(append, &rows.map_err(refused_by_driver)?)
}
