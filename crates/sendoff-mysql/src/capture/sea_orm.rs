//! `sea-orm`: its transactions.
//!
//! Handles of its nested transactions share the connection without borrowing from one another. One that is
//! left open turns the outer `commit` into the release of a savepoint, and one that is dropped in time undoes
//! the insert; both answer `Ok`. So a guard has the only handle, as [`SeaOrmTransaction`], which runs queries
//! and begins nothing. What was written into a transaction of the application's own is confirmed by the store
//! after `release`, and that holds whatever the driver said.
//!
//! ```no_run
//! # use sea_orm::ConnectionTrait;
//! # async fn example(
//! #     outbox: sendoff_engine::Outbox<sendoff_mysql::MysqlStore>,
//! #     db: sea_orm::DatabaseConnection,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = outbox.begin(&db).await?;
//! tx.execute_unprepared("insert into orders values (4711)").await?;
//! tx.emit(("order.placed", r#"{"order":4711}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
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

use std::marker::PhantomData;

use ::sea_orm::sqlx::mysql::MySqlDatabaseError;
use ::sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult,
    QueryResult, RuntimeErr, Statement, TransactionTrait, Value,
};
use async_trait::async_trait;
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, InsertResult, Nest, Nesting,
    Release, WriteError,
};
use sendoff_engine::store::{Born, NewRow};

use super::draft::{Draft, DraftRow, Proof, UNDO, names_our_key, preamble, refused};
use super::inserted::{Inserted, undoes};
use super::unfinished::Unfinished;
use crate::error::code;
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

/// A transaction of sea-orm's to which nobody else has a handle, or a savepoint in one. Queries of sea-orm
/// run on it as on any connection (`&*tx`); a nested one is set by the guard's `savepoint`.
#[derive(Debug)]
pub struct SeaOrmTransaction<'t> {
    tx: DatabaseTransaction,
    /// What it is a savepoint of is not used meanwhile.
    within: PhantomData<&'t mut ()>,
}

impl SeaOrmTransaction<'_> {
    fn alone(tx: DatabaseTransaction) -> Self {
        Self { tx, within: PhantomData }
    }
}

#[async_trait]
impl ConnectionTrait for SeaOrmTransaction<'_> {
    fn get_database_backend(&self) -> DbBackend {
        ConnectionTrait::get_database_backend(&self.tx)
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.tx.execute_raw(statement).await
    }

    async fn execute_unprepared(&self, text: &str) -> Result<ExecResult, DbErr> {
        self.tx.execute_unprepared(text).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.tx.query_one_raw(statement).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.tx.query_all_raw(statement).await
    }
}

/// Await it to its end: sqlx 0.9.0, on which sea-orm is built, returns a connection to the pool with the
/// transaction open if its own `begin` is dropped on the way.
impl Begin<&DatabaseConnection> for MysqlStore {
    type Tx = SeaOrmTransaction<'static>;

    async fn begin(&self, db: &DatabaseConnection) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        if db.get_database_backend() != DbBackend::MySql {
            return Err(BeginError("the connection is not one of MySQL or MariaDB".into()));
        }
        let tx = db.begin().await.map_err(|error| BeginError(error.into()))?;
        // The mark that `still_begun` looks for.
        let begun = self.sql().begun.text();
        tx.execute_unprepared(begun).await.map_err(|error| BeginError(error.into()))?;
        Ok(SeaOrmTransaction::alone(tx))
    }
}

/// Nothing can run between the proof, the insert and COMMIT: whoever commits has the only handle.
impl<'c> Commit<SeaOrmTransaction<'c>> for MysqlStore {
    async fn commit(
        &self,
        SeaOrmTransaction { tx, .. }: SeaOrmTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let inserted = match insert_last(self, &tx, rows).await {
            Ok(inserted) => inserted,
            Err(error) => {
                // The first error is the one to tell.
                let _ = tx.rollback().await;
                return Err(error);
            }
        };
        inserted.committed(rows, tx.commit().await, number)
    }

    async fn rollback(&self, tx: SeaOrmTransaction<'c>) -> Result<(), CommitError> {
        // One that fails here still cannot commit: the server undoes it when the connection closes.
        tx.tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl<'t, 'c> Nest<'t, SeaOrmTransaction<'c>> for MysqlStore {
    type Nested = SeaOrmTransaction<'t>;

    fn savepoint(&'t self, outer: &'t mut SeaOrmTransaction<'c>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move {
            let nested = outer.tx.begin().await.map_err(|error| BeginError(error.into()))?;
            Ok(SeaOrmTransaction::alone(nested))
        })
    }
}

impl<'t> Release<'t, SeaOrmTransaction<'t>> for MysqlStore {
    fn release(&'t self, nested: SeaOrmTransaction<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.tx.commit().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }

    fn roll_back_to(
        &'t self,
        nested: SeaOrmTransaction<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }
}

/// Whatever makes the COMMIT after it a proof.
async fn insert_last(
    store: &MysqlStore,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Inserted, CommitError> {
    store.check_open().map_err(|_| CommitError::Refused(WriteError::Closed))?;
    let drafts = Draft::all(rows).map_err(CommitError::Refused)?;
    let lost = |error: DbErr| CommitError::RolledBack(error.into());
    if drafts.is_empty() {
        let proof = store.sql().still_begun.text();
        tx.execute_unprepared(proof).await.map_err(|error| match number(&error) {
            Some(code::DOES_NOT_EXIST) => CommitError::RolledBack(WriteError::NoTransaction.into()),
            _ => lost(error),
        })?;
        return Ok(Inserted { born: Vec::new(), session: None });
    }
    send(store, tx, Proof::Begun, &drafts).await.map_err(|error| match number(&error) {
        // COMMIT was not sent: whatever it was, the transaction ends without.
        None => lost(error),
        Some(number) if undoes(number) => lost(error),
        Some(_) => CommitError::Refused(write_error(store, error)),
    })
}

/// Inserts the drafts one after the other; where one fails, those before it are undone.
async fn send(
    store: &MysqlStore,
    tx: &DatabaseTransaction,
    proof: Proof,
    drafts: &[Draft<'_>],
) -> Result<Inserted, DbErr> {
    let mut inserted = Inserted { born: Vec::new(), session: None };
    for (at, draft) in drafts.iter().enumerate() {
        match insert_one(store, tx, &preamble(store, proof, drafts, at), draft).await {
            Ok((created_at, session)) => {
                inserted.born.extend(draft.born(created_at));
                inserted.session = Some(session);
            }
            Err(error) => {
                if at > 0 && number(&error).is_some() {
                    // Fails only where the transaction is gone, and they with it.
                    let _ = tx.execute_unprepared(UNDO).await;
                }
                return Err(error);
            }
        }
    }
    Ok(inserted)
}

/// Inserts all rows in one statement.
async fn insert_all(store: &MysqlStore, tx: &DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
    if tx.get_database_backend() != DbBackend::MySql {
        return Err(WriteError::Driver("the transaction is not one of MySQL or MariaDB".into()));
    }
    let sent = send(store, tx, Proof::Open, &Draft::written(store, rows)?).await;
    sent.map(|inserted| inserted.born).map_err(|error| write_error(store, error))
}

/// When it was inserted, in microseconds, and the session's number.
async fn insert_one(
    store: &MysqlStore,
    tx: &DatabaseTransaction,
    preamble: &str,
    draft: &Draft<'_>,
) -> Result<(i64, u64), DbErr> {
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
    Ok((created_at, session))
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
