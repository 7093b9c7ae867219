//! `sea-orm`: its transactions. What they need beside statements stands in the engine
//! ([`SeaOrmStore`]).
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

use ::sea_orm::sea_query::ArrayType;
use ::sea_orm::sqlx::postgres::{PgDatabaseError, PgSeverity};
use ::sea_orm::sqlx::{Row, ValueRef};
use ::sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, RuntimeErr, Statement,
    Value,
};
use ::tokio_postgres::error::SqlState;
use ::tokio_postgres::types::{FromSql, Type};
use sendoff_core::{BoxError, Token};
use sendoff_engine::capture::{
    CommitError, InsertResult, Inserted, JoinError, Part, SeaOrmStore, WriteError,
};
use sendoff_engine::store::{Born, NewRow, StoreError};

use super::draft::Draft;
use super::insert::{is_key, was_over};
use super::join::{self, Ask};
use super::literal::{array, span, time};
use super::params::{Form, Params};
use crate::store::PostgresStore;
use crate::wire::{At, Payload, Xid};

impl SeaOrmStore for PostgresStore {
    const BACKEND: DbBackend = DbBackend::Postgres;
    const DATABASE: &'static str = "PostgreSQL";

    fn check_open(&self) -> Result<(), StoreError> {
        self.check_open()
    }

    async fn insert_rows(&self, tx: &DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
        match Draft::whole(rows)? {
            Some(draft) => Ok(insert_one(self, tx, &draft).await?.born),
            None => Ok(Vec::new()),
        }
    }

    /// The insert is the last statement before COMMIT: where it succeeded, the transaction could commit.
    async fn insert_last(
        &self,
        tx: &DatabaseTransaction,
        rows: &[NewRow],
    ) -> Result<Inserted, CommitError> {
        let mut all = Inserted::default();
        if rows.is_empty() {
            let open = is_open(self, tx).await.map_err(CommitError::RolledBack);
            return if open? {
                Ok(all)
            } else {
                Err(CommitError::RolledBack(WriteError::NoTransaction.into()))
            };
        }
        for draft in Draft::all(rows).map_err(CommitError::Refused)? {
            let inserted = insert_one(self, tx, &draft).await.map_err(|error| match error {
                WriteError::Driver(source) if is_lost(&*source) => CommitError::RolledBack(source),
                refused => CommitError::Refused(refused),
            })?;
            all.born.extend(inserted.born);
            all.xid = inserted.xid;
        }
        Ok(all)
    }

    async fn take_part(
        &self,
        tx: &DatabaseTransaction,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        let wanted = Ask::new(self, part)?;
        let mut answer = answered(tx, &wanted).await?;
        // It knew of no transaction. One that wrote nothing yet has to be marked first.
        if answer.is_none() {
            let mark = &self.sql().in_transaction.text;
            tx.execute_unprepared(mark).await.map_err(not_joined)?;
            answer = answered(tx, &wanted).await?;
        }
        answer.ok_or(JoinError::NoTransaction)
    }

    /// After an ordinary error (a deferred constraint, a lost race) the session goes on.
    fn is_rolled_back(error: &DbErr) -> bool {
        refusal(error).is_some_and(|refusal| matches!(refusal.severity(), PgSeverity::Error))
    }
}

async fn answered(tx: &DatabaseTransaction, wanted: &Ask<'_>) -> Result<Option<bool>, JoinError> {
    let values = wanted.params.iter().map(|param| Value::from(param.as_str()));
    let text = wanted.statement.text.as_str();
    let asked = Statement::from_sql_and_values(DbBackend::Postgres, text, values);
    let row = tx.query_one_raw(asked).await.map_err(not_joined)?;
    row.map(|row| get(&row, 0, &Type::BOOL)).transpose().map_err(JoinError::Driver)
}

fn not_joined(error: DbErr) -> JoinError {
    let code = refusal(&error).map(|refusal| SqlState::from_code(refusal.code()));
    join::refused(code, error)
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
fn is_lost(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<DbErr>() else { return false };
    refusal(error).is_none_or(|refusal| was_over(refusal.code()))
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
    let xid = xid.map_err(WriteError::Driver)?.map(|Xid(xid)| xid);
    Ok(Inserted { born, xid })
}

async fn send(
    store: &PostgresStore,
    tx: &DatabaseTransaction,
    draft: &Draft<'_>,
) -> Result<Vec<QueryResult>, WriteError> {
    let params = Params::new(store, draft);
    let form = params.form();
    let statement = form.statement(store);
    let values = match form {
        Form::Plain => of_plain(draft),
        Form::Due | Form::One => of_one(draft),
        Form::Many => values(&params).to_vec(),
    };
    let values = values.into_iter().take(statement.types.len());
    let insert = Statement::from_sql_and_values(DbBackend::Postgres, &statement.text, values);
    tx.query_all_raw(insert).await.map_err(|error| refused(store, error))
}

/// In the order of `write_one_plain`.
fn of_plain(draft: &Draft<'_>) -> Vec<Value> {
    vec![
        draft.ids[0].0.to_string().into(),
        draft.event_types[0].into(),
        draft.shards[0].to_string().into(),
        draft.content_types[0].into(),
        time(draft.occurred_at[0]).into(),
        draft.payloads[0].0.into(),
    ]
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
