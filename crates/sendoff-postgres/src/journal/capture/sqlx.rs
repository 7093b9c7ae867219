//! `sqlx`: its transactions, and its connection inside a transaction begun by hand.
//!
//! sqlx does not pipeline, so the mark that a transaction is open is a round trip of its own.

use ::tokio_postgres::error::SqlState;
use ::tokio_postgres::types::Type;
use sendoff_core::BoxError;
use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};
use sendoff_engine::store::StoreError;

use super::version::adapter::{ask, get, mark, refusal};
use super::version::driver::postgres::{PgConnection, PgRow};
use super::version::driver::{Error, Postgres, Transaction};
use crate::encoded::encode;
use crate::journal::append::{Answer, Params, receipts_of, refused_elsewhere};
use crate::journal::store::PostgresJournal;

impl<'c> AppendIn<Transaction<'c, Postgres>> for PostgresJournal {
    async fn append_in(
        &self,
        tx: &mut Transaction<'c, Postgres>,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx, append).await
    }
}

/// The type proves nothing here; outside a transaction nothing is appended, and the answer is
/// [`AppendError::NoTransaction`].
impl AppendIn<PgConnection> for PostgresJournal {
    async fn append_in(
        &self,
        conn: &mut PgConnection,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, conn, append).await
    }
}

async fn append_on(
    journal: &PostgresJournal,
    conn: &mut PgConnection,
    append: &Append,
) -> Result<Vec<Receipt>, AppendError> {
    journal.check_open()?;
    let statement = &journal.sql().journal.append_in;
    let params = Params::new(journal, append)?;
    let params = encode(&params.in_order(), statement.types).map_err(StoreError::Refused)?;
    mark(journal.sql(), conn).await.map_err(refused)?;
    let doorbell = journal.options().server.doorbell;
    let rows = ask(conn, statement, params, doorbell).await.map_err(refused)?;
    let answers = rows.iter().map(answer).collect::<Result<Vec<_>, _>>();
    receipts_of(append, &answers.map_err(StoreError::Refused)?)
}

fn answer(row: &PgRow) -> Result<Answer, BoxError> {
    Ok(Answer {
        outcome: get(row, 0, &Type::INT4)?,
        place: get(row, 1, &Type::INT8)?,
        at: get(row, 2, &Type::TIMESTAMPTZ)?,
    })
}

fn refused(error: Error) -> AppendError {
    let code = refusal(&error).map(|refusal| SqlState::from_code(refusal.code()));
    refused_elsewhere(code.as_ref(), error)
}
