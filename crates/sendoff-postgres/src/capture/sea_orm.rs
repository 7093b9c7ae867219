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
//! #     outbox: sendoff_engine::Outbox<sendoff_postgres::PostgresStore>,
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
//! #     outbox: sendoff_engine::Outbox<sendoff_postgres::PostgresStore>,
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

use std::borrow::Cow;
use std::marker::PhantomData;

use ::sea_orm::sea_query::ArrayType;
use ::sea_orm::sqlx::postgres::{PgDatabaseError, PgSeverity};
use ::sea_orm::sqlx::{Row, ValueRef};
use ::sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult,
    QueryResult, RuntimeErr, Statement, TransactionTrait, Value,
};
use ::tokio_postgres::types::{FromSql, Type};
use async_trait::async_trait;
use sendoff_core::{BoxError, Token};
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, CommitMark, InsertResult, Nest,
    Nesting, Release, WriteError,
};
use sendoff_engine::store::{Born, NewRow};

use super::draft::Draft;
use super::insert::{Inserted, is_key};
use super::literal::{array, span, time};
use super::params::Params;
use crate::store::PostgresStore;
use crate::wire::{At, Payload, Xid};

impl Capture<DatabaseTransaction> for PostgresStore {
    async fn insert(&self, tx: &mut DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
        insert_all(self, tx, rows).await
    }
}

/// What a closure of sea-orm's `transaction` is given.
impl<'c> Capture<&'c DatabaseTransaction> for PostgresStore {
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
impl Begin<&DatabaseConnection> for PostgresStore {
    type Tx = SeaOrmTransaction<'static>;

    async fn begin(&self, db: &DatabaseConnection) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        if db.get_database_backend() != DbBackend::Postgres {
            return Err(BeginError("the connection is not one of PostgreSQL".into()));
        }
        let tx = db.begin().await.map_err(|error| BeginError(error.into()))?;
        Ok(SeaOrmTransaction::alone(tx))
    }
}

/// The insert is the last statement before COMMIT, and nobody else can send one in between: where it
/// succeeded, the transaction could commit.
impl<'c> Commit<SeaOrmTransaction<'c>> for PostgresStore {
    async fn commit(
        &self,
        SeaOrmTransaction { tx, .. }: SeaOrmTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let Inserted { born, xid } = match insert_last(self, &tx, rows).await {
            Ok(inserted) => inserted,
            Err(error) => {
                // The first error is the one to tell.
                let _ = tx.rollback().await;
                return Err(error);
            }
        };
        let mark = CommitMark::new(rows.iter().map(|row| row.event.id()).collect());
        let mark = match xid {
            Some(Xid(xid)) => mark.with_xid(xid),
            None => mark,
        };
        tx.commit().await.map_err(|error| not_committed(error, mark))?;
        Ok(born)
    }

    async fn rollback(&self, tx: SeaOrmTransaction<'c>) -> Result<(), CommitError> {
        // One that fails here still cannot commit: the server undoes it when the connection closes.
        tx.tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl<'t, 'c> Nest<'t, SeaOrmTransaction<'c>> for PostgresStore {
    type Nested = SeaOrmTransaction<'t>;

    fn savepoint(&'t self, outer: &'t mut SeaOrmTransaction<'c>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move {
            let nested = outer.tx.begin().await.map_err(|error| BeginError(error.into()))?;
            Ok(SeaOrmTransaction::alone(nested))
        })
    }
}

impl<'t> Release<'t, SeaOrmTransaction<'t>> for PostgresStore {
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
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Inserted, CommitError> {
    store.check_open().map_err(|_| CommitError::Refused(WriteError::Closed))?;
    let mut all = Inserted { born: Vec::new(), xid: None };
    if rows.is_empty() {
        let open = is_open(store, tx).await.map_err(CommitError::RolledBack);
        return if open? {
            Ok(all)
        } else {
            Err(CommitError::RolledBack(WriteError::NoTransaction.into()))
        };
    }
    for draft in Draft::all(rows).map_err(CommitError::Refused)? {
        let inserted = insert_one(store, tx, &draft).await.map_err(|error| match error {
            WriteError::Driver(source) if was_over(&*source) => CommitError::RolledBack(source),
            refused => CommitError::Refused(refused),
        })?;
        all.born.extend(inserted.born);
        all.xid = inserted.xid;
    }
    Ok(all)
}

/// Whether a transaction is open and can commit, for a commit without events.
async fn is_open(store: &PostgresStore, tx: &DatabaseTransaction) -> Result<bool, BoxError> {
    tx.execute_unprepared(&store.sql().in_transaction.text).await?;
    let asked = &store.sql().is_in_transaction.text;
    let row = tx.query_one_raw(Statement::from_string(DbBackend::Postgres, asked)).await?;
    row.map_or(Ok(false), |row| get(&row, 0, &Type::BOOL))
}

/// Whether the transaction was lost before our insert: it had failed, lost a race, or its connection
/// is gone. COMMIT was not sent.
fn was_over(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<DbErr>() else { return false };
    match refusal(error) {
        Some(refusal) => matches!(refusal.code(), "25P02" | "40001" | "40P01"),
        None => true,
    }
}

/// What it means that COMMIT itself failed. A session that is being ended may have committed before
/// it could say so; an ordinary error (a deferred constraint, a lost race) means that it did not.
fn not_committed(error: DbErr, mark: CommitMark) -> CommitError {
    if refusal(&error).is_some_and(|refusal| matches!(refusal.severity(), PgSeverity::Error)) {
        CommitError::RolledBack(error.into())
    } else {
        CommitError::Unknown { mark, source: error.into() }
    }
}

/// Inserts all rows in one statement.
async fn insert_all(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> InsertResult {
    store.check_open().map_err(|_| WriteError::Closed)?;
    if tx.get_database_backend() != DbBackend::Postgres {
        return Err(WriteError::Driver("the transaction is not one of PostgreSQL".into()));
    }
    match Draft::whole(rows)? {
        Some(draft) => Ok(insert_one(store, tx, &draft).await?.born),
        None => Ok(Vec::new()),
    }
}

async fn insert_one(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    draft: &Draft<'_>,
) -> Result<Inserted, WriteError> {
    let mut rows = send(store, tx, draft).await?;
    // All or none: without any, the statement knew of no transaction. One that wrote nothing yet has
    // to be marked first, in a round trip of its own: sea-orm does not pipeline.
    if rows.is_empty() {
        let mark = &store.sql().in_transaction.text;
        tx.execute_unprepared(mark).await.map_err(|error| refused(store, error))?;
        rows = send(store, tx, draft).await?;
    }
    if rows.is_empty() {
        return Err(WriteError::NoTransaction);
    }
    let held = draft.locked_by.iter().map(Option::is_some);
    let born = rows.iter().zip(held).map(|(row, held)| born(row, held));
    let born = born.collect::<Result<_, _>>().map_err(WriteError::Driver)?;
    let xid = rows.first().map(|row| get(row, 2, &Type::TEXT)).transpose();
    Ok(Inserted { born, xid: xid.map_err(WriteError::Driver)? })
}

async fn send(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    draft: &Draft<'_>,
) -> Result<Vec<QueryResult>, WriteError> {
    let params = Params::new(store, draft);
    let statement = params.statement(store);
    let values = if draft.len() == 1 { of_one(draft) } else { values(&params).to_vec() };
    let values = values.into_iter().take(statement.types.len());
    let insert = Statement::from_sql_and_values(DbBackend::Postgres, &statement.text, values);
    tx.query_all_raw(insert).await.map_err(|error| refused(store, error))
}

/// In the order of `write_one`.
fn of_one(draft: &Draft<'_>) -> Vec<Value> {
    let maybe = |text: Option<&str>| Value::from(text);
    let headers = draft.headers[0].as_ref().map(|json| &*json.0);
    vec![
        draft.ids[0].0.to_string().into(),
        draft.event_types[0].into(),
        draft.aggregate_types[0].into(),
        maybe(draft.aggregate_ids[0]),
        maybe(draft.tenant_ids[0]),
        maybe(draft.ordering_keys[0]),
        draft.shards[0].to_string().into(),
        draft.content_types[0].into(),
        time(draft.occurred_at[0]).into(),
        maybe(headers),
        draft.payloads[0].0.into(),
        span(draft.after[0]).into(),
        maybe(draft.locked_by[0]),
    ]
}

/// In the order of the statement.
fn values(params: &Params<'_>) -> [Value; 14] {
    let draft = params.draft;
    [
        array(draft.ids.iter().map(|id| Some(id.0.to_string().into()))).into(),
        texts(&draft.event_types),
        texts(&draft.aggregate_types),
        maybe_texts(&draft.aggregate_ids),
        maybe_texts(&draft.tenant_ids),
        maybe_texts(&draft.ordering_keys),
        array(draft.shards.iter().map(|shard| Some(shard.to_string().into()))).into(),
        texts(&draft.content_types),
        array(draft.occurred_at.iter().map(|at| Some(time(*at).into()))).into(),
        array(draft.after.iter().map(|after| Some(span(*after).into()))).into(),
        maybe_texts(&draft.locked_by),
        array(draft.headers.iter().map(|json| Some(Cow::Borrowed(&*json.as_ref()?.0)))).into(),
        // Never NULL, so that they can travel as they are.
        bytes(&draft.payloads),
        params.ring.into(),
    ]
}

pub(crate) fn bytes(items: &[Payload<'_>]) -> Value {
    let items = items.iter().map(|bytes| bytes.0.into()).collect();
    Value::Array(ArrayType::Bytes, Some(Box::new(items)))
}

pub(crate) fn texts(items: &[&str]) -> Value {
    array(items.iter().map(|item| Some(Cow::Borrowed(*item)))).into()
}

fn maybe_texts(items: &[Option<&str>]) -> Value {
    array(items.iter().map(|item| item.map(Cow::Borrowed))).into()
}

fn born(row: &QueryResult, held: bool) -> Result<Born, BoxError> {
    let at = |column| get(row, column, &Type::TIMESTAMPTZ);
    let (At(created_at), At(due_at)) = (at(0)?, at(1)?);
    Ok(Born { created_at, token: held.then(|| Token::new(due_at)) })
}

pub(crate) fn get<'r, T: FromSql<'r>>(
    row: &'r QueryResult,
    column: usize,
    kind: &Type,
) -> Result<T, BoxError> {
    let row = row.try_as_pg_row().ok_or("the row is not one of PostgreSQL")?;
    let value = row.try_get_raw(column)?;
    T::from_sql_nullable(kind, if value.is_null() { None } else { Some(value.as_bytes()?) })
}

fn refused(store: &PostgresStore, error: DbErr) -> WriteError {
    let duplicate = refusal(&error)
        .is_some_and(|refusal| refusal.code() == "23505" && is_key(store, refusal.constraint()));
    if duplicate { WriteError::DuplicateId } else { WriteError::Driver(error.into()) }
}

pub(crate) fn refusal(error: &DbErr) -> Option<&PgDatabaseError> {
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            error.as_database_error()?.try_downcast_ref()
        }
        _ => None,
    }
}
