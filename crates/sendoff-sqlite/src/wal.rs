//! Bringing the write-ahead log back to its size.
//!
//! While a reader goes on, SQLite cannot begin its log anew, and it grows with every commit. Afterwards it
//! does, and the log's file stays as large as it was until the last connection is closed.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tracing::debug;

use crate::busy;

/// A log up to this size is left as it is: SQLite empties its own after 4 MiB as a rule.
const KEPT: u64 = 16 * 1024 * 1024;
/// How often its size is looked at. Where somebody is in the way, the next look tries again.
const LOOK: Duration = Duration::from_secs(1);

/// The log, as one connection sees to it between its calls.
pub(crate) struct Wal {
    path: PathBuf,
    busy_timeout: Duration,
    look_at: Instant,
}

impl Wal {
    pub(crate) fn new(path: PathBuf, busy_timeout: Duration) -> Self {
        Self { path, busy_timeout, look_at: Instant::now() }
    }

    /// Cuts it off if it is large and nobody needs it.
    pub(crate) fn tend(&mut self, conn: &Connection) {
        let now = Instant::now();
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK;
        let is_large = fs::metadata(&self.path).is_ok_and(|log| log.len() > KEPT);
        // Within a transaction of its own a connection cannot.
        if is_large && conn.is_autocommit() {
            let cut = self.cut(conn);
            debug!(?cut, "the write-ahead log is large");
        }
    }

    /// Whether it did. Nobody waits for this, and it waits for nobody.
    fn cut(&self, conn: &Connection) -> rusqlite::Result<bool> {
        // What there is to be moved into the file is moved beside whoever writes. Only a log of which
        // nothing is left is cut, which keeps writers out, and there is next to nothing to be done then.
        if !checkpoint(conn, "passive")?.is_complete() {
            return Ok(false);
        }
        conn.busy_handler(None)?;
        let cut = checkpoint(conn, "truncate");
        busy::install(conn, self.busy_timeout)?;
        Ok(cut?.is_complete())
    }
}

/// What a checkpoint came to, in pages.
struct Checkpoint {
    busy: bool,
    logged: i64,
    moved: i64,
}

impl Checkpoint {
    fn is_complete(&self) -> bool {
        !self.busy && self.logged == self.moved
    }
}

fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<Checkpoint> {
    conn.query_row(&format!("pragma wal_checkpoint({mode})"), [], |row| {
        Ok(Checkpoint { busy: row.get(0)?, logged: row.get(1)?, moved: row.get(2)? })
    })
}
