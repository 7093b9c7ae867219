//! Appending in transactions of `sqlx`.

use ::sqlx::sqlite::SqliteConnection;
use ::sqlx::{AssertSqlSafe, Connection, Error, Row, Sqlite, Transaction};
use sendoff_core::journal::Append;
use sendoff_engine::capture::{Join, JoinError, Part};
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};
use sendoff_engine::store::StoreError;

use super::append::{append_within, warn_of};
use super::conn::{Conn, Value};
use super::join::{cursor_of, move_in};
use super::store::SqliteJournal;
use crate::capture::sqlx::{is_open, not_joined};

/// Under a savepoint of sqlx's: a future that is dropped on the way takes back what it did, unless it had
/// done it all and only the answer was on its way.
impl<'c> AppendIn<Transaction<'c, Sqlite>> for SqliteJournal {
    async fn append_in(
        &self,
        tx: &mut Transaction<'c, Sqlite>,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.check_open()?;
        // Without a transaction around it a savepoint would be one, and its release a commit.
        if !is_open(tx).await.map_err(Awaited::refused)? {
            return Err(AppendError::NoTransaction);
        }
        warn_of(&mut Awaited(tx), self.durability()).await?;
        let mut savepoint = tx.begin().await.map_err(Awaited::refused)?;
        let conn = &mut Awaited(&mut savepoint);
        match append_within(conn, self.sql(), append, self.now()).await {
            Ok(receipts) => {
                savepoint.commit().await.map_err(Awaited::refused)?;
                Ok(receipts)
            }
            Err(error) => {
                // The first error is the one to tell; this one fails where SQLite rolled back already.
                let _ = savepoint.rollback().await;
                Err(error)
            }
        }
    }
}

impl<'c> Join<Transaction<'c, Sqlite>> for SqliteJournal {
    async fn join(
        &self,
        tx: &mut Transaction<'c, Sqlite>,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        let to = cursor_of(part)?;
        if !is_open(tx).await.map_err(not_joined)? {
            return Err(JoinError::NoTransaction);
        }
        move_in(&mut Awaited(tx), self, to).await.map_err(not_joined)
    }
}

/// sqlx's, which is awaited.
struct Awaited<'c>(&'c mut SqliteConnection);

impl Conn for Awaited<'_> {
    type Error = Error;

    async fn rows(
        &mut self,
        statement: &str,
        params: &[Value<'_>],
    ) -> Result<Vec<Vec<i64>>, Error> {
        // Safe: our own file, with the checked prefix in it.
        let mut query = ::sqlx::query(AssertSqlSafe(statement));
        for param in params {
            query = match *param {
                Value::Null => query.bind(None::<i64>),
                Value::Integer(number) => query.bind(number),
                Value::Text(text) => query.bind(text.to_owned()),
                Value::Blob(bytes) => query.bind(bytes.to_vec()),
            };
        }
        let rows = query.fetch_all(&mut *self.0).await?;
        // Expressions have no declared type that could be checked.
        let numbers = |row: &::sqlx::sqlite::SqliteRow| {
            (0..row.len()).map(|column| row.try_get_unchecked(column)).collect()
        };
        rows.iter().map(numbers).collect()
    }

    fn refused(error: Error) -> AppendError {
        let Some(refusal) = error.as_database_error() else {
            return StoreError::Unavailable(error.into()).into();
        };
        // The lowest byte of an extended code is the code.
        let code = refusal.code().and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff);
        match code {
            Some(BUSY | LOCKED) => AppendError::Busy(error.into()),
            _ => StoreError::Refused(error.into()).into(),
        }
    }
}

/// SQLite's numbers for another's lock.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
