//! Inserting into a transaction that the caller holds.

use ::tokio_postgres::error::{Error, SqlState};
use ::tokio_postgres::types::ToSql;
use ::tokio_postgres::{Client, Row, Statement as Prepared};
use futures_util::future::join;
use sendoff_core::Token;
use sendoff_engine::capture::WriteError;
use sendoff_engine::store::{Born, NewRow};

use super::draft::Draft;
use crate::link::query_unnamed;
use crate::options::Doorbell;
use crate::store::PostgresStore;
use crate::wire::{At, Xid};

/// How the statement reaches the server. Both ways it leaves with the first poll of its future: were
/// it prepared on the way, what follows it in the pipeline would overtake it.
#[derive(Clone)]
pub(super) enum Insert {
    Prepared(Prepared),
    Unnamed,
}

/// The server's answer to one statement.
pub(super) struct Inserted {
    pub(super) born: Vec<Born>,
    pub(super) xid: Option<Xid>,
}

/// Inserts all rows, statement by statement. The first that fails aborts the transaction, and with
/// it the ones before.
pub(super) async fn insert_all(
    store: &PostgresStore,
    client: &Client,
    insert: &Insert,
    rows: &[NewRow],
) -> Result<Vec<Born>, WriteError> {
    store.check_open().map_err(|_| WriteError::Closed)?;
    let mut born = Vec::with_capacity(rows.len());
    for draft in Draft::all(rows)? {
        born.extend(insert_one(store, client, insert, &draft).await?);
    }
    Ok(born)
}

/// One statement in one round trip, behind the mark that a transaction is open.
pub(super) async fn insert_one(
    store: &PostgresStore,
    client: &Client,
    insert: &Insert,
    draft: &Draft<'_>,
) -> Result<Vec<Born>, WriteError> {
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
    let ring = draft.ring && store.doorbell() == Doorbell::On;
    let channel = store.bell().channel();
    let params: [&(dyn ToSql + Sync); 15] = [
        &draft.ids,
        &draft.event_types,
        &draft.aggregate_types,
        &draft.aggregate_ids,
        &draft.tenant_ids,
        &draft.ordering_keys,
        &draft.shards,
        &draft.content_types,
        &draft.occurred_at,
        &draft.after,
        &draft.locked_by,
        &draft.headers,
        &draft.payloads,
        &ring,
        &channel,
    ];
    let rows = match insert {
        Insert::Prepared(statement) => client.query(statement, &params).await?,
        Insert::Unnamed => query_unnamed(client, &store.sql().insert, &params).await?,
    };
    let xid = rows.first().map(|row| row.try_get(2)).transpose()?;
    let held = draft.locked_by.iter().map(Option::is_some);
    let born =
        rows.iter().zip(held).map(|(row, held)| born(row, held)).collect::<Result<_, _>>()?;
    Ok(Inserted { born, xid })
}

fn born(row: &Row, held: bool) -> Result<Born, Error> {
    let (At(created_at), At(due_at)) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Born { created_at, token: held.then(|| Token::new(due_at)) })
}

/// By code and constraint: the transaction may trip over unique indexes of its own.
pub(super) fn refused(store: &PostgresStore, error: Error) -> WriteError {
    let duplicate = error.as_db_error().is_some_and(|refusal| {
        *refusal.code() == SqlState::UNIQUE_VIOLATION
            && refusal.constraint() == Some(&*store.names().plain("outbox_event_pkey"))
    });
    if duplicate { WriteError::DuplicateId } else { WriteError::Driver(error.into()) }
}
