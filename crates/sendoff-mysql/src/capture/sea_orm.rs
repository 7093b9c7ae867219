//! `sea-orm`: its transactions.
//!
//! Only `write`, no guard: handles of nested transactions share the connection without borrowing from
//! one another. One that is left open turns the outer `commit` into the release of a savepoint, and
//! one that is dropped in time undoes the insert; both answer `Ok`. What was written is confirmed by
//! the store after `release`, and that holds whatever the driver said.
//!
//! ```no_run
//! # use sea_orm::{ConnectionTrait, TransactionTrait};
//! # async fn example(
//! #     outbox: sendoff_engine::Outbox<sendoff_mysql::MysqlStore>,
//! #     db: sea_orm::DatabaseConnection,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = db.begin().await?;
//! tx.execute_unprepared("insert into orders values (4711)").await?;
//! let staged = outbox.write(&mut tx, ("order.placed", r#"{"order":4711}"#)).await?;
//! tx.commit().await?;
//! staged.release();
//! # Ok(())
//! # }
//! ```

use ::sea_orm::sqlx::mysql::MySqlDatabaseError;
use ::sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, RuntimeErr, Statement, Value,
};
use sendoff_engine::capture::{Capture, InsertResult, WriteError};
use sendoff_engine::store::NewRow;

use super::draft::{Draft, DraftRow, Proof, names_our_key, preamble, refused};
use super::unfinished::Unfinished;
use crate::store::MysqlStore;
use crate::wire::{micros, time_text};

impl Capture<DatabaseTransaction> for MysqlStore {
    async fn insert(&self, tx: &mut DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
        insert_all(self, tx, rows).await
    }
}

/// What a closure of sea-orm's `transaction` is given.
impl<'c> Capture<&'c DatabaseTransaction> for MysqlStore {
    async fn insert(&self, tx: &mut &'c DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
        insert_all(self, tx, rows).await
    }
}

/// Inserts all rows in one statement.
async fn insert_all(store: &MysqlStore, tx: &DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
    if tx.get_database_backend() != DbBackend::MySql {
        return Err(WriteError::Driver("the transaction is not one of MySQL or MariaDB".into()));
    }
    let drafts = Draft::written(store, rows)?;
    let Some(draft) = drafts.first() else { return Ok(Vec::new()) };
    let preamble = preamble(store, Proof::Open, &drafts, 0);
    match insert_one(store, tx, &preamble, draft).await {
        Ok(created_at) => Ok(draft.born(created_at).collect()),
        Err(error) => Err(write_error(store, error)),
    }
}

/// When it was inserted, in microseconds.
async fn insert_one(
    store: &MysqlStore,
    tx: &DatabaseTransaction,
    preamble: &str,
    draft: &Draft<'_>,
) -> Result<i64, DbErr> {
    tx.execute_unprepared(preamble.trim_end().trim_end_matches(';')).await?;
    let said = Statement::from_string(DbBackend::MySql, store.sql().inserted.text());
    let row = tx.query_one_raw(said).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the time of the insert".into()))?;
    let (created_at, session) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
    let insert = Statement::from_sql_and_values(
        DbBackend::MySql,
        draft.text_with_marks(store),
        draft.rows.iter().flat_map(values),
    );
    let unfinished = Unfinished::new(store, session);
    let answer = tx.execute_raw(insert).await;
    unfinished.answered();
    answer?;
    Ok(created_at)
}

/// In the order of the statement. Texts travel as bytes: the server would take them for the session's
/// character set, which is the application's to change.
fn values(row: &DraftRow<'_>) -> Vec<Value> {
    let bytes = |text: Option<&str>| Value::from(text.map(|text| text.as_bytes().to_vec()));
    let mut values: Vec<Value> = vec![row.id.as_bytes().to_vec().into()];
    values.extend(row.names.map(bytes));
    values.extend([
        row.shard.into(),
        bytes(Some(row.content_type)),
        time_text(row.occurred_at).into(),
        micros(row.after).into(),
        bytes(row.locked_by),
        bytes(row.headers.as_deref()),
        row.payload.to_vec().into(),
        row.delay().map(micros).into(),
    ]);
    values
}

fn refusal(error: &DbErr) -> Option<&MySqlDatabaseError> {
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            error.as_database_error()?.try_downcast_ref()
        }
        _ => None,
    }
}

/// The server's number, where it was the server that refused.
pub(crate) fn number(error: &DbErr) -> Option<u16> {
    refusal(error).map(MySqlDatabaseError::number)
}

fn write_error(store: &MysqlStore, error: DbErr) -> WriteError {
    let is_our_key = refusal(&error).is_some_and(|refusal| names_our_key(store, refusal.message()));
    refused(number(&error), is_our_key, error.into())
}
