//! `rusqlite`: its transactions are bound to a thread, so everything here blocks.

use ::rusqlite::ffi::{SQLITE_BUSY_SNAPSHOT, SQLITE_CONSTRAINT_UNIQUE};
use ::rusqlite::{
    Connection, Error, ErrorCode, Savepoint, Statement, Transaction, TransactionBehavior,
};
use sendoff_core::Timestamp;
use sendoff_engine::capture::{
    BeginBlocking, BeginError, CaptureBlocking, CommitBlocking, CommitError, InsertResult,
    JoinBlocking, JoinError, NestBlocking, Part, ReleaseBlocking, SendError, WriteError,
};
use sendoff_engine::store::{Born, Held, NewRow, Outcome, SendStore, Settlement};

use super::{RELEASE, ROLL_BACK, ROWS_PER_STATEMENT, SAVEPOINT};
use crate::durable::{PRAGMA, durably};
use crate::error::failed;
use crate::file::{unjoinable, unwritable};
use crate::rows::Draft;
use crate::settle::settle_all;
use crate::store::SqliteStore;

impl CaptureBlocking<Connection> for SqliteStore {
    fn insert_blocking(&self, conn: &Connection, rows: &[NewRow]) -> InsertResult {
        insert(self, conn, rows)
    }
}

impl CaptureBlocking<Transaction<'_>> for SqliteStore {
    fn insert_blocking(&self, tx: &Transaction<'_>, rows: &[NewRow]) -> InsertResult {
        insert(self, tx, rows)
    }
}

impl CaptureBlocking<Savepoint<'_>> for SqliteStore {
    fn insert_blocking(&self, savepoint: &Savepoint<'_>, rows: &[NewRow]) -> InsertResult {
        insert(self, savepoint, rows)
    }
}

impl JoinBlocking<Connection> for SqliteStore {
    fn join_blocking(&self, conn: &Connection, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, conn, part)
    }
}

impl JoinBlocking<Transaction<'_>> for SqliteStore {
    fn join_blocking(&self, tx: &Transaction<'_>, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, tx, part)
    }
}

impl JoinBlocking<Savepoint<'_>> for SqliteStore {
    fn join_blocking(&self, tx: &Savepoint<'_>, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, tx, part)
    }
}

fn take_part(store: &SqliteStore, conn: &Connection, part: &Part<'_>) -> Result<bool, JoinError> {
    store.check_open().map_err(unjoinable)?;
    check_transaction(conn).map_err(|_| JoinError::NoTransaction)?;
    let now = store.now();
    let done = match *part {
        Part::Once { consumer, id } => {
            conn.prepare_cached(&store.sql().once).and_then(|mut once| {
                let seen = once.execute((consumer.as_str(), id.as_bytes(), now.as_micros()))?;
                warn_of(store, conn)?;
                Ok(seen > 0)
            })
        }
        Part::Done { id, token, .. } => {
            let done = Settlement { held: Held::row(id, token), outcome: Outcome::Done };
            settle_all(conn, store.sql(), now, store.retention(), &[done])
                .map(|settled| !settled.is_empty())
        }
        Part::Moved(_) => return Err(JoinError::NotHere),
    };
    done.map_err(not_joined)
}

/// Why a part of a transaction was not carried out.
pub(crate) fn not_joined(error: Error) -> JoinError {
    match error.sqlite_error() {
        Some(failure) if failure.extended_code == SQLITE_BUSY_SNAPSHOT => {
            JoinError::LostRace(error.into())
        }
        Some(failure) if failure.code == ErrorCode::DatabaseBusy => JoinError::Busy(error.into()),
        _ => JoinError::Driver(error.into()),
    }
}

impl<'c> BeginBlocking<&'c mut Connection> for SqliteStore {
    type Tx = Transaction<'c>;

    /// Immediate: a transaction that begins by reading cannot always go on to write.
    fn begin_blocking(&self, conn: &'c mut Connection) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        conn.transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| BeginError(error.into()))
    }
}

impl<'c> CommitBlocking<Transaction<'c>> for SqliteStore {
    fn commit_blocking(
        &self,
        tx: Transaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let born = if rows.is_empty() {
            Vec::new()
        } else {
            match insert(self, &tx, rows) {
                Ok(born) => born,
                Err(error) => {
                    self.rollback_blocking(tx)?;
                    return Err(CommitError::Refused(error));
                }
            }
        };
        match tx.execute_batch("commit") {
            Ok(()) if tx.is_autocommit() => Ok(born),
            Ok(()) => {
                self.rollback_blocking(tx)?;
                Err(CommitError::RolledBack("the transaction was still open after COMMIT".into()))
            }
            // BUSY and its like leave the transaction open, to be tried again. Nobody will.
            Err(error) => {
                self.rollback_blocking(tx)?;
                Err(CommitError::RolledBack(error.into()))
            }
        }
    }

    fn rollback_blocking(&self, tx: Transaction<'c>) -> Result<(), CommitError> {
        // Some errors make SQLite roll back by itself.
        if tx.is_autocommit() {
            return Ok(());
        }
        // One that fails here still cannot commit: SQLite undoes it when the connection closes.
        tx.rollback().map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl SendStore for SqliteStore {
    /// On the store's thread, whose other transactions need not wait for the disk: this one does.
    async fn send(&self, rows: &[NewRow]) -> Result<Vec<Born>, SendError> {
        let (store, rows) = (self.clone(), rows.to_vec());
        let sent = move |conn: &mut Connection| {
            durably(conn, store.synchronous(), |conn| -> Result<Vec<Born>, SendError> {
                let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate);
                let tx = tx.map_err(failed)?;
                Ok(store.commit_blocking(tx, &rows)?)
            })
            .map_err(failed)
        };
        self.call(sent).await?
    }
}

impl<'t, 'c: 't> NestBlocking<'t, Transaction<'c>> for SqliteStore {
    type Nested = Savepoint<'t>;

    fn savepoint_blocking(&self, tx: &'t mut Transaction<'c>) -> Result<Self::Nested, BeginError> {
        // Without a transaction around it a savepoint would be one, and its release a commit.
        check_transaction(tx).map_err(|error| BeginError(error.into()))?;
        tx.savepoint().map_err(|error| BeginError(error.into()))
    }
}

impl<'t, 'c: 't> NestBlocking<'t, Savepoint<'c>> for SqliteStore {
    type Nested = Savepoint<'t>;

    fn savepoint_blocking(&self, outer: &'t mut Savepoint<'c>) -> Result<Self::Nested, BeginError> {
        check_transaction(outer).map_err(|error| BeginError(error.into()))?;
        outer.savepoint().map_err(|error| BeginError(error.into()))
    }
}

impl ReleaseBlocking<Savepoint<'_>> for SqliteStore {
    fn release_blocking(&self, nested: Savepoint<'_>) -> Result<(), CommitError> {
        // One that cannot be released is dropped, and rolled back by that.
        nested.commit().map_err(|error| CommitError::RolledBack(error.into()))
    }

    fn roll_back_to_blocking(&self, mut nested: Savepoint<'_>) -> Result<(), CommitError> {
        // Rolling back leaves the savepoint in place; releasing it then keeps nothing.
        nested
            .rollback()
            .and_then(|()| nested.commit())
            .map_err(|error| CommitError::RolledBack(error.into()))
    }
}

/// The types prove that a transaction was begun, not that it is still open: a ROLLBACK can be run by
/// hand through them, and the insert would then commit itself.
fn check_transaction(conn: &Connection) -> Result<(), WriteError> {
    if conn.is_autocommit() { Err(WriteError::NoTransaction) } else { Ok(()) }
}

/// Says so once where the caller's connection does not commit durably.
fn warn_of(store: &SqliteStore, conn: &Connection) -> ::rusqlite::Result<()> {
    if store.durability().asks() {
        let synchronous = conn.prepare_cached(PRAGMA)?.query_row([], |row| row.get(0))?;
        store.durability().learn(synchronous);
    }
    Ok(())
}

fn insert(store: &SqliteStore, conn: &Connection, rows: &[NewRow]) -> InsertResult {
    store.check_open().map_err(unwritable)?;
    check_transaction(conn)?;
    warn_of(store, conn).map_err(refused)?;
    let now = store.now();
    let drafts: Vec<_> = rows.iter().map(|row| Draft::new(row, now)).collect();
    if drafts.len() <= ROWS_PER_STATEMENT {
        insert_chunk(store, conn, &drafts).map_err(refused)?;
    } else {
        conn.execute_batch(SAVEPOINT).map_err(refused)?;
        let inserted = drafts
            .chunks(ROWS_PER_STATEMENT)
            .try_for_each(|chunk| insert_chunk(store, conn, chunk))
            .and_then(|()| conn.execute_batch(RELEASE));
        if let Err(error) = inserted {
            // The first error is the one to tell; this one fails where SQLite rolled back already.
            let _ = conn.execute_batch(ROLL_BACK);
            return Err(refused(error));
        }
    }
    Ok(drafts.iter().map(Draft::born).collect())
}

fn insert_chunk(
    store: &SqliteStore,
    conn: &Connection,
    drafts: &[Draft<'_>],
) -> ::rusqlite::Result<()> {
    if drafts.is_empty() {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(&store.sql().insert(drafts.len()))?;
    let mut at = 1;
    for draft in drafts {
        at = bind(&mut statement, at, draft)?;
    }
    statement.raw_execute()?;
    Ok(())
}

/// Binds one row in the order of the statement's columns, from parameter `at` on.
fn bind(statement: &mut Statement<'_>, at: usize, draft: &Draft<'_>) -> ::rusqlite::Result<usize> {
    let event = draft.event;
    let values: [&dyn ::rusqlite::ToSql; 15] = [
        event.id.as_bytes(),
        &event.event_type,
        &event.aggregate_type,
        &event.aggregate_id,
        &event.tenant_id,
        &event.ordering_key,
        &draft.shard,
        &event.content_type,
        &event.occurred_at.as_micros(),
        &draft.due_at.as_micros(),
        &draft.created_at.as_micros(),
        &draft.locked_by,
        &draft.headers,
        &&event.payload[..],
        &draft.delayed_until.map(Timestamp::as_micros),
    ];
    for (offset, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(at + offset, value)?;
    }
    Ok(at + values.len())
}

fn refused(error: Error) -> WriteError {
    match error.sqlite_error() {
        Some(failure) if failure.extended_code == SQLITE_CONSTRAINT_UNIQUE => {
            WriteError::DuplicateId
        }
        _ => WriteError::Driver(error.into()),
    }
}
