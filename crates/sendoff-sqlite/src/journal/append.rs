//! Appending in a transaction, which on SQLite is the only one that writes.

use rusqlite::{Connection, ErrorCode, OptionalExtension, Savepoint, Transaction};
use sendoff_core::Timestamp;
use sendoff_core::journal::{Append, Fact, Position, Tag};
use sendoff_engine::journal::{AppendError, AppendInBlocking, Conflict, Page, Receipt};
use sendoff_engine::store::StoreError;

use super::search::{json, search};
use super::sql::Sql;
use super::store::SqliteJournal;
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
        append_all(conn, self.sql(), append, self.now())
    }
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
    match append_within(conn, sql, append, now) {
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

fn append_within(
    conn: &Connection,
    sql: &Sql,
    append: &Append,
    now: Timestamp,
) -> Result<Vec<Receipt>, AppendError> {
    if let Some(known) = known(conn, sql, append)? {
        return Ok(known);
    }
    if let Some(condition) = append.condition() {
        let page = Page { after: condition.after, up_to: Position::END, limit: 1 };
        let found = search(conn, sql, &condition.query, page).map_err(refused)?;
        if let Some(&number) = found.first() {
            return Err(Conflict { position: position(number)? }.into());
        }
    }
    append.facts().iter().map(|fact| insert(conn, sql, fact, now)).collect()
}

/// Where the facts are, if an append before put the same ones there.
fn known(
    conn: &Connection,
    sql: &Sql,
    append: &Append,
) -> Result<Option<Vec<Receipt>>, AppendError> {
    let mut statement = conn.prepare_cached(&sql.known).map_err(refused)?;
    let mut receipts = Vec::new();
    for fact in append.facts() {
        let (id, event) = (fact.id(), fact.event());
        let tags = json(fact.tags().iter().map(Tag::as_str));
        let params =
            (id.as_bytes(), event.event_type(), tags, event.content_type(), &event.payload()[..]);
        let found = statement
            .query_row(params, |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, bool>(2)?)))
            .optional()
            .map_err(refused)?;
        let Some((number, recorded_at, same)) = found else { continue };
        if !same {
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

fn insert(
    conn: &Connection,
    sql: &Sql,
    fact: &Fact,
    now: Timestamp,
) -> Result<Receipt, AppendError> {
    let (id, event) = (fact.id(), fact.event());
    let mut statement = conn.prepare_cached(&sql.insert).map_err(refused)?;
    let params = (
        id.as_bytes(),
        event.event_type(),
        event.content_type(),
        event.occurred_at().as_micros(),
        now.as_micros(),
        fact.correlation_id().map(|id| *id.as_bytes()),
        fact.causation_id().map(|id| *id.as_bytes()),
        json(fact.tags().iter().map(Tag::as_str)),
        event.headers().to_json(),
        &event.payload()[..],
    );
    let number: i64 = statement.query_row(params, |row| row.get(0)).map_err(refused)?;
    let mut tagging = conn.prepare_cached(&sql.insert_tag).map_err(refused)?;
    for tag in fact.tags() {
        tagging.execute((tag.as_str(), number)).map_err(refused)?;
    }
    Ok(Receipt { position: position(number)?, recorded_at: now, fresh: true })
}

fn position(number: i64) -> Result<Position, AppendError> {
    Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()).into())
}

fn refused(error: rusqlite::Error) -> AppendError {
    let busy = [Some(ErrorCode::DatabaseBusy), Some(ErrorCode::DatabaseLocked)];
    if busy.contains(&error.sqlite_error_code()) {
        AppendError::Busy(error.into())
    } else {
        AppendError::Store(failed(error))
    }
}
