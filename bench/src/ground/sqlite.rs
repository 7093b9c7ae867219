//! A database in an SQLite file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use rusqlite::Connection;
use sendoff_core::Timestamp;
use sendoff_sqlite::{Retention, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::Rows;

const BUSINESS: &str = include_str!("../../sql/sqlite/business.sql");
const FILL: &str = include_str!("../../sql/sqlite/fill.sql");
const PENDING: &str = include_str!("../../sql/sqlite/pending.sql");

/// A file of ours.
#[derive(Debug)]
pub(crate) struct Ground {
    path: PathBuf,
    /// Numbers the rows that were made, so that ids are never used twice.
    filled: AtomicU64,
}

impl Ground {
    /// Makes a file with empty tables.
    pub(crate) async fn create(path: PathBuf) -> Result<Self> {
        let ground = Self::existing(path);
        ground.install().await?;
        Ok(ground)
    }

    /// A file that is there already.
    pub(crate) fn existing(path: PathBuf) -> Self {
        Self { path, filled: AtomicU64::new(0) }
    }

    async fn install(&self) -> Result<()> {
        let store = self.open(Retention::default()).await?;
        store.connect()?.execute_batch(BUSINESS)?;
        store.close().await;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) async fn open(&self, retention: Retention) -> Result<SqliteStore> {
        let options = SqliteOptions { retention, ..SqliteOptions::default() };
        Ok(SqliteStore::open_with(&self.path, options).await?)
    }

    /// A connection set up as the store sets up its own and the application's.
    pub(crate) fn connect(&self, synchronous: Synchronous) -> Result<Connection> {
        let conn = Connection::open(&self.path)?;
        conn.busy_timeout(SqliteOptions::default().busy_timeout)?;
        conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        conn.pragma_update(None, "synchronous", synchronous.pragma())?;
        conn.pragma_update(None, "foreign_keys", true)?;
        Ok(conn)
    }

    /// A new file: deleting rows would leave free pages to the next round.
    pub(super) async fn clear(&self) -> Result<()> {
        for suffix in ["", "-wal", "-shm"] {
            let mut file = self.path.clone().into_os_string();
            file.push(suffix);
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        self.install().await
    }

    pub(super) fn fill(&self, rows: Rows) -> Result<()> {
        let count = rows.count();
        if count == 0 {
            return Ok(());
        }
        let first = self.filled.fetch_add(count, Ordering::Relaxed);
        let (count, first) = (i64::try_from(count)?, i64::try_from(first)?);
        block_in_place(|| {
            let conn = self.connect(Synchronous::Normal)?;
            let now = Timestamp::now().as_micros();
            conn.execute(FILL, (count, first, rows.status(), now, i64::try_from(rows.keys())?))?;
            conn.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
            Ok(())
        })
    }

    pub(super) fn has_pending(&self) -> Result<bool> {
        let conn = self.connect(Synchronous::Normal)?;
        Ok(block_in_place(|| conn.query_row(PENDING, [], |row| row.get(0)))?)
    }
}

pub(super) fn settings() -> Value {
    json!({
        "store": "sqlite",
        "version": rusqlite::version(),
        "journal_mode": "wal",
        "synchronous": { "application": "full", "relay": "normal" },
    })
}

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Synchronous {
    /// The operating system: claims and settlements.
    Normal,
    /// The disk: the application's transactions.
    Full,
}

impl Synchronous {
    fn pragma(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}
