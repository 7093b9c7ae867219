//! Inserting into a transaction that the caller holds.

use ::tokio_postgres::error::{Error, SqlState};
use ::tokio_postgres::types::ToSql;
use ::tokio_postgres::{Client, Row, Statement as Prepared};
use futures_util::future::join;
use sendoff_core::Token;
use sendoff_engine::capture::{InsertResult, Inserted, WriteError};
use sendoff_engine::store::{Born, NewRow};

use super::draft::{Draft, Line};
use super::params::Params;
use crate::error::explained;
use crate::link::query_unnamed;
use crate::options::Doorbell;
use crate::store::PostgresStore;
use crate::wire::{At, Xid};

/// How the statement reaches the server. Both ways it leaves with the first poll of its future: were
/// it prepared on the way, what follows it in the pipeline would overtake it.
#[derive(Clone)]
pub(super) enum Insert {
    Prepared(Statements),
    Unnamed,
}

/// The statements as the session knows them.
#[derive(Clone)]
pub(super) struct Statements {
    /// `insert`.
    pub(super) many: Prepared,
    /// `insert_one`.
    pub(super) one: Prepared,
    /// `insert_one_due`.
    pub(super) one_due: Prepared,
}

/// Whether the server refused an insert because the transaction had failed before, or lost a race.
#[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
pub(super) fn was_over(code: &str) -> bool {
    matches!(code, "25P02" | "40001" | "40P01")
}

/// Inserts all rows in one statement.
pub(super) async fn insert_all(
    store: &PostgresStore,
    client: &Client,
    insert: &Insert,
    rows: &[NewRow],
) -> InsertResult {
    store.check_open().map_err(|_| WriteError::Closed)?;
    match Draft::whole(rows)? {
        Some(draft) => insert_one(store, client, insert, &draft).await,
        None => Ok(Vec::new()),
    }
}

/// One statement in one round trip, after the mark that a transaction is open.
pub(super) async fn insert_one(
    store: &PostgresStore,
    client: &Client,
    insert: &Insert,
    draft: &Draft<'_>,
) -> InsertResult {
    let (marked, inserted) = join(mark(store, client), send(store, client, insert, draft)).await;
    marked.map_err(|error| refused(store, error))?;
    let inserted = inserted.map_err(|error| refused(store, error))?;
    // All or none: a statement of rows without any was run outside a transaction.
    if inserted.born.is_empty() { Err(WriteError::NoTransaction) } else { Ok(inserted.born) }
}

/// Marks the transaction as open.
pub(super) async fn mark(store: &PostgresStore, client: &Client) -> Result<(), Error> {
    client.batch_execute(&store.sql().in_transaction.text).await
}

/// Sends one statement.
pub(super) async fn send(
    store: &PostgresStore,
    client: &Client,
    insert: &Insert,
    draft: &Draft<'_>,
) -> Result<Inserted, Error> {
    let params = Params::new(store, draft);
    let params = params.in_order();
    let rows = match insert {
        Insert::Prepared(statements) => client.query(&statements.many, &params).await?,
        Insert::Unnamed => query_unnamed(client, &store.sql().insert, &params).await?,
    };
    inserted(draft, &rows)
}

/// Sends the statement for one row alone. It knows by itself whether a transaction is open.
pub(super) async fn send_one(
    store: &PostgresStore,
    client: &Client,
    statements: &Statements,
    line: &Line<'_>,
) -> Result<Inserted, Error> {
    let params: [&(dyn ToSql + Sync); 13] = [
        &line.id,
        &line.event_type,
        &line.aggregate_type,
        &line.aggregate_id,
        &line.tenant_id,
        &line.ordering_key,
        &line.shard,
        &line.content_type,
        &line.occurred_at,
        &line.headers,
        &line.payload,
        &line.after,
        &line.locked_by,
    ];
    let row = if line.is_due_at_once() && store.doorbell() == Doorbell::On {
        client.query_one(&statements.one_due, &params[..11]).await?
    } else {
        client.query_one(&statements.one, &params).await?
    };
    let (At(created_at), Xid(xid)) = (row.try_get(0)?, row.try_get(1)?);
    let token = match line.locked_by {
        Some(_) => {
            let At(due_at) = row.try_get(2)?;
            Some(Token::new(due_at))
        }
        None => None,
    };
    Ok(Inserted { born: vec![Born { created_at, token }], xid: Some(xid) })
}

fn inserted(draft: &Draft<'_>, rows: &[Row]) -> Result<Inserted, Error> {
    let xid = rows.first().map(|row| row.try_get(2)).transpose()?.map(|Xid(xid)| xid);
    let held = draft.locked_by.iter().map(Option::is_some);
    let born =
        rows.iter().zip(held).map(|(row, held)| born(row, held)).collect::<Result<_, _>>()?;
    Ok(Inserted { born, xid })
}

fn born(row: &Row, held: bool) -> Result<Born, Error> {
    let (At(created_at), At(due_at)) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Born { created_at, token: held.then(|| Token::new(due_at)) })
}

pub(super) fn refused(store: &PostgresStore, error: Error) -> WriteError {
    let duplicate = error.as_db_error().is_some_and(|refusal| {
        *refusal.code() == SqlState::UNIQUE_VIOLATION && is_key(store, refusal.constraint())
    });
    if duplicate {
        WriteError::DuplicateId
    } else if error.code() == Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION) {
        WriteError::NoTransaction
    } else {
        let code = error.code().cloned();
        WriteError::Driver(explained(code.as_ref(), error))
    }
}

/// Whether a constraint is our own: the transaction may trip over unique indexes of its own.
///
/// Each partition has its own, named after the partition, and cut where that is too long.
pub(super) fn is_key(store: &PostgresStore, constraint: Option<&str>) -> bool {
    let ours = || {
        let table = constraint?.strip_suffix("_pkey")?;
        let partition = table.strip_prefix(&*store.names().plain("outbox_event"))?;
        let named = partition.strip_prefix("_p");
        let dated = |name: &str| name == "max" || name.bytes().all(|byte| byte.is_ascii_digit());
        Some(partition.is_empty() || named.is_some_and(dated))
    };
    ours().unwrap_or(false)
}
