//! Moving a cursor in a transaction of the application's: all that a journal does there beside appending.

use rusqlite::{Connection, Savepoint, Transaction};
use sendoff_engine::capture::{CursorMove, JoinBlocking, JoinError, Part};
use sendoff_engine::journal::publish::JoinJournal;

use super::conn::{Blocking, Conn, Value, at_once};
use super::store::SqliteJournal;
use crate::capture::rusqlite::not_joined;
use crate::file::unjoinable;

impl JoinJournal for SqliteJournal {
    type Store = Self;

    fn joins(&self) -> Result<&Self, JoinError> {
        self.check_open().map_err(unjoinable)?;
        Ok(self)
    }
}

impl JoinBlocking<Connection> for SqliteJournal {
    fn join_blocking(&self, conn: &Connection, part: &Part<'_>) -> Result<bool, JoinError> {
        // The types prove that a transaction was begun, not that it is still open.
        if conn.is_autocommit() {
            return Err(JoinError::NoTransaction);
        }
        let to = cursor_of(part)?;
        at_once(move_in(&mut Blocking(conn), self, to)).map_err(not_joined)
    }
}

impl JoinBlocking<Transaction<'_>> for SqliteJournal {
    fn join_blocking(&self, tx: &Transaction<'_>, part: &Part<'_>) -> Result<bool, JoinError> {
        self.join_blocking(&**tx, part)
    }
}

impl JoinBlocking<Savepoint<'_>> for SqliteJournal {
    fn join_blocking(&self, tx: &Savepoint<'_>, part: &Part<'_>) -> Result<bool, JoinError> {
        self.join_blocking(&**tx, part)
    }
}

/// A journal in a file needs no outbox, and does not know one.
pub(super) fn cursor_of<'p>(part: &Part<'p>) -> Result<CursorMove<'p>, JoinError> {
    match *part {
        Part::Moved(to) => Ok(to),
        Part::Once { .. } | Part::Done { .. } => Err(JoinError::NotHere),
    }
}

/// Whether it was moved.
pub(super) async fn move_in<C: Conn>(
    conn: &mut C,
    journal: &SqliteJournal,
    to: CursorMove<'_>,
) -> Result<bool, C::Error> {
    let CursorMove { pair, owner, epoch, from, to } = to;
    let params = [
        Value::Text(owner),
        Value::Integer(journal.now().as_micros()),
        Value::Text(pair.topic()),
        Value::Text(pair.publisher()),
        Value::Integer(epoch),
        Value::Integer(from.into()),
        Value::Integer(to.into()),
    ];
    let moved = conn.rows(&journal.sql().move_in, &params).await?;
    Ok(!moved.is_empty())
}
