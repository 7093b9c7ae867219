//! Appending in a transaction, which on SQLite is the only one that writes.

use rusqlite::{Connection, ErrorCode, Savepoint, Transaction};
use sendoff_core::Timestamp;
use sendoff_core::journal::{Append, Fact, Position, Tag};
use sendoff_engine::journal::{AppendError, AppendInBlocking, Conflict, Page, Receipt};
use sendoff_engine::store::StoreError;

use super::conn::{Blocking, Conn, Value, at_once};
use super::search::{json, search};
use super::sql::Sql;
use super::store::SqliteJournal;
use crate::durable::{Durability, PRAGMA};
use crate::error::failed;

impl AppendInBlocking<Connection> for SqliteJournal {
    fn append_in_blocking(
        &self,
        conn: &Connection,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_on(conn, append)
    }
}

impl AppendInBlocking<Transaction<'_>> for SqliteJournal {
    fn append_in_blocking(
        &self,
        tx: &Transaction<'_>,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_on(tx, append)
    }
}

impl AppendInBlocking<Savepoint<'_>> for SqliteJournal {
    fn append_in_blocking(
        &self,
        savepoint: &Savepoint<'_>,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_on(savepoint, append)
    }
}

impl SqliteJournal {
    fn append_on(&self, conn: &Connection, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        self.check_open()?;
        // The types prove that a transaction was begun, not that it is still open.
        if conn.is_autocommit() {
            return Err(AppendError::NoTransaction);
        }
        at_once(warn_of(&mut Blocking(conn), self.durability()))?;
        append_all(conn, self.sql(), append, self.now())
    }
}

/// Says so once where a connection of somebody else's does not commit durably.
pub(super) async fn warn_of<C: Conn>(
    conn: &mut C,
    durability: &Durability,
) -> Result<(), AppendError> {
    if !durability.asks() {
        return Ok(());
    }
    let answer = conn.rows(PRAGMA, &[]).await.map_err(C::refused)?;
    if let Some(&synchronous) = answer.first().and_then(|row| row.first()) {
        durability.learn(synchronous);
    }
    Ok(())
}

const SAVEPOINT: &str = "savepoint sendoff_journal";
const RELEASE: &str = "release sendoff_journal";
const ROLL_BACK: &str = "rollback to sendoff_journal; release sendoff_journal";

/// All or none, in a transaction that is open.
///
/// What the check reads is current: SQLite lets nobody write who has not seen the last commit, so if
/// the snapshot of a transaction that began by reading is old, its insert is refused.
pub(super) fn append_all(
    conn: &Connection,
    sql: &Sql,
    append: &Append,
    now: Timestamp,
) -> Result<Vec<Receipt>, AppendError> {
    conn.execute_batch(SAVEPOINT).map_err(refused)?;
    match at_once(append_within(&mut Blocking(conn), sql, append, now)) {
        Ok(receipts) => {
            conn.execute_batch(RELEASE).map_err(refused)?;
            Ok(receipts)
        }
        Err(error) => {
            // The first error is the one to tell; this one fails where SQLite rolled back already.
            let _ = conn.execute_batch(ROLL_BACK);
            Err(error)
        }
    }
}

/// What happens between the savepoint and its end.
pub(super) async fn append_within<C: Conn>(
    conn: &mut C,
    sql: &Sql,
    append: &Append,
    now: Timestamp,
) -> Result<Vec<Receipt>, AppendError> {
    if let Some(known) = known(conn, sql, append).await? {
        return Ok(known);
    }
    if let Some(condition) = append.condition() {
        let page = Page::first(condition.after, Position::END);
        let found = search(conn, sql, &condition.query, page).await.map_err(C::refused)?;
        if let Some(&number) = found.first() {
            return Err(Conflict::Fact { position: position(number)? }.into());
        }
    }
    let mut receipts = Vec::with_capacity(append.facts().len());
    for fact in append.facts() {
        receipts.push(insert(conn, sql, fact, now).await?);
    }
    Ok(receipts)
}

/// Where the facts are, if an append before put the same ones there.
async fn known<C: Conn>(
    conn: &mut C,
    sql: &Sql,
    append: &Append,
) -> Result<Option<Vec<Receipt>>, AppendError> {
    let mut receipts = Vec::new();
    for fact in append.facts() {
        let (id, event) = (fact.id(), fact.event());
        let tags = json(fact.tags().iter().map(Tag::as_str));
        let params = [
            Value::Blob(id.as_bytes()),
            Value::Text(event.event_type()),
            Value::Text(&tags),
            Value::Text(event.content_type()),
            Value::Blob(event.payload()),
        ];
        let found = conn.rows(&sql.known, &params).await.map_err(C::refused)?;
        let Some(&[number, recorded_at, same]) = found.first().map(Vec::as_slice) else { continue };
        if same == 0 {
            return Err(AppendError::IdTaken);
        }
        let recorded_at = Timestamp::from_micros(recorded_at);
        receipts.push(Receipt { position: position(number)?, recorded_at, fresh: false });
    }
    match receipts.len() {
        0 => Ok(None),
        all if all == append.facts().len() => Ok(Some(receipts)),
        _ => Err(AppendError::IdTaken),
    }
}

async fn insert<C: Conn>(
    conn: &mut C,
    sql: &Sql,
    fact: &Fact,
    now: Timestamp,
) -> Result<Receipt, AppendError> {
    let (id, event) = (fact.id(), fact.event());
    let (correlation, causation) = (fact.correlation_id(), fact.causation_id());
    let tags = json(fact.tags().iter().map(Tag::as_str));
    let headers = event.headers().to_json();
    let params = [
        Value::Blob(id.as_bytes()),
        Value::Text(event.event_type()),
        Value::Text(event.content_type()),
        Value::Integer(event.occurred_at().as_micros()),
        Value::Integer(now.as_micros()),
        correlation.as_ref().map(|id| id.as_bytes()).into(),
        causation.as_ref().map(|id| id.as_bytes()).into(),
        Value::Text(&tags),
        headers.as_deref().into(),
        Value::Blob(event.payload()),
    ];
    let rows = conn.rows(&sql.insert, &params).await.map_err(C::refused)?;
    let number = rows.into_iter().flatten().next().unwrap_or_default();
    for tag in fact.tags() {
        let params = [Value::Text(tag.as_str()), Value::Integer(number)];
        conn.rows(&sql.insert_tag, &params).await.map_err(C::refused)?;
    }
    Ok(Receipt { position: position(number)?, recorded_at: now, fresh: true })
}

fn position(number: i64) -> Result<Position, AppendError> {
    Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()).into())
}

pub(super) fn refused(error: rusqlite::Error) -> AppendError {
    let busy = [Some(ErrorCode::DatabaseBusy), Some(ErrorCode::DatabaseLocked)];
    if busy.contains(&error.sqlite_error_code()) {
        AppendError::Busy(error.into())
    } else {
        AppendError::Store(failed(error))
    }
}
