//! Opening connections that share a file well.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use sendoff_engine::store::StoreError;

use crate::busy::{self, Pause};
use crate::error::{failed, misconfigured};
use crate::options::Synchronous;

/// Statements of ours that may be in use on one connection, with room for the application's.
const CACHED_STATEMENTS: usize = 128;

/// Whether the file must be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

pub(crate) fn connect(
    path: &Path,
    missing: Missing,
    busy_timeout: Duration,
    synchronous: Synchronous,
) -> Result<Connection, StoreError> {
    // No mutex: a rusqlite connection is used by one thread at a time anyway.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if missing == Missing::Create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    busy::install(&conn, busy_timeout).map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    log_ahead(&conn, busy_timeout)?;
    conn.pragma_update(None, "synchronous", synchronous.pragma()).map_err(failed)?;
    conn.pragma_update(None, "foreign_keys", true).map_err(failed)?;
    Ok(conn)
}

/// Switches the file to write-ahead logging, so that readers and the writer do not wait for each
/// other.
fn log_ahead(conn: &Connection, busy_timeout: Duration) -> Result<(), StoreError> {
    let pause = Pause::until(busy_timeout);
    let mode: String = loop {
        // Two connections that switch a new file at once get BUSY without their handler being asked.
        match conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && pause.step() => {}
            answer => break answer.map_err(failed)?,
        }
    };
    if mode.eq_ignore_ascii_case("wal") {
        Ok(())
    } else {
        Err(misconfigured(format!(
            "the file stays in journal mode {mode:?} and the outbox needs write-ahead logging: put it \
             on a local file system"
        )))
    }
}
