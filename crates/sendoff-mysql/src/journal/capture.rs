//! Appending in the application's own transactions of `mysql_async`, and in ours.

use ::mysql_async::prelude::Queryable;
use ::mysql_async::{Conn, Error, Row, Transaction};
use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};

use super::append::{Carrier, Failure, Insert, Numbers, Whose, append};
use super::prepares::{Driver, Line};
use super::store::MysqlJournal;
use crate::capture::{MysqlConnTransaction, MysqlTransaction};
use crate::error::{failed, number};
use crate::link::Session;
use crate::rows;

impl<'c> AppendIn<Transaction<'c>> for MysqlJournal {
    async fn append_in(
        &self,
        tx: &mut Transaction<'c>,
        facts: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.check_open()?;
        append(self, &mut Driver(tx), Whose::Callers, facts).await
    }
}

/// The type proves nothing here; outside a transaction nothing is appended, and the answer is
/// [`AppendError::NoTransaction`]. With autocommit off there is always a transaction.
impl AppendIn<Conn> for MysqlJournal {
    async fn append_in(
        &self,
        conn: &mut Conn,
        facts: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.check_open()?;
        append(self, &mut Driver(conn), Whose::Callers, facts).await
    }
}

/// A transaction that an outbox began.
impl AppendIn<MysqlTransaction> for MysqlJournal {
    async fn append_in(
        &self,
        tx: &mut MysqlTransaction,
        facts: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_in(&mut **tx, facts).await
    }
}

impl<'c> AppendIn<MysqlConnTransaction<'c>> for MysqlJournal {
    async fn append_in(
        &self,
        tx: &mut MysqlConnTransaction<'c>,
        facts: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_in(&mut **tx, facts).await
    }
}

impl<C: Queryable + Send> Carrier for Driver<'_, C> {
    async fn run(&mut self, text: String) -> Result<(), Failure> {
        self.text(&text).await.map(|_| ()).map_err(failure)
    }

    async fn ask(&mut self, text: String) -> Result<Numbers, Failure> {
        numbers(self.text(&text).await)
    }

    async fn insert(&mut self, insert: Insert<'_>) -> Result<Numbers, Failure> {
        numbers(insert.carry(self).await)
    }
}

impl Carrier for Session<'_> {
    async fn run(&mut self, text: String) -> Result<(), Failure> {
        self.query(&text).await.map(|_| ()).map_err(failure)
    }

    async fn ask(&mut self, text: String) -> Result<Numbers, Failure> {
        numbers(self.query(&text).await)
    }

    async fn insert(&mut self, insert: Insert<'_>) -> Result<Numbers, Failure> {
        numbers(insert.carry(self).await)
    }
}

fn failure(error: Error) -> Failure {
    Failure { number: number(&error), error: failed(error) }
}

fn numbers(rows: Result<Vec<Row>, Error>) -> Result<Numbers, Failure> {
    let rows = rows.map_err(failure)?;
    let row = |row: &Row| (0..row.len()).map(|column| rows::integer(row, column).ok()).collect();
    Ok(rows.iter().map(row).collect())
}
