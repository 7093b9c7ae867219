//! Where the demo keeps its things.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::options::Options;

/// Marks a database as the demo's, so that --resume never puts tables into somebody else's.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"Send");
const ORDERS: &str = include_str!("sql/orders.sql");

/// The database, and the handler's record beside it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) db: PathBuf,
    /// Open to append, and locked: two demos on one file would judge each other's deliveries.
    pub(crate) deliveries: File,
    pub(crate) deliveries_path: PathBuf,
    /// Removed when dropped.
    folder: Option<TempDir>,
}

impl Place {
    pub(crate) fn prepare(options: &Options) -> anyhow::Result<Self> {
        match &options.db {
            None => {
                let folder = tempfile::Builder::new()
                    .prefix("sendoff-demo-")
                    .tempdir()
                    .context("no temporary folder could be made; give a file with --db")?;
                let db = folder.path().join("demo.db");
                Self::at(db, true, Some(folder))
            }
            Some(db) => {
                if options.resume {
                    check_resumable(db)?;
                } else {
                    check_free(db)?;
                }
                Self::at(db.clone(), !options.resume, None)
            }
        }
    }

    fn at(db: PathBuf, new: bool, folder: Option<TempDir>) -> anyhow::Result<Self> {
        if new {
            // Fails if somebody else was faster; SQLite would open their file.
            File::create_new(&db).with_context(|| format!("--db {}", db.display()))?;
        }
        let deliveries_path = deliveries_of(&db);
        let deliveries = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&deliveries_path)
            .with_context(|| format!("--db: {}", deliveries_path.display()))?;
        match deliveries.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("--db {}: another demo is at work on this file", db.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).context(format!("--db: {}", deliveries_path.display()));
            }
        }
        claim(&db).with_context(|| format!("--db {}", db.display()))?;
        Ok(Self { db, deliveries, deliveries_path, folder })
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.folder.is_some()
    }
}

pub(crate) fn deliveries_of(db: &Path) -> PathBuf {
    let mut name: OsString = db.as_os_str().to_owned();
    name.push(".deliveries");
    name.into()
}

fn check_free(db: &Path) -> anyhow::Result<()> {
    for taken in [db, &deliveries_of(db)] {
        // Also true of a link that leads nowhere: whatever it is, it is not ours.
        let there = taken.symlink_metadata().is_ok();
        ensure!(
            !there,
            "--db {}: {} exists already and was left as it is; add --resume to go on with an \
             earlier demo, or name another file",
            db.display(),
            taken.display(),
        );
    }
    Ok(())
}

fn check_resumable(db: &Path) -> anyhow::Result<()> {
    let named = || format!("--resume --db {}", db.display());
    let found = db.metadata().with_context(named)?;
    ensure!(found.is_file(), "{}: not a file", named());
    let conn =
        Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_WRITE).with_context(named)?;
    let id: i32 = conn
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .with_context(|| format!("{}: not a database", named()))?;
    let tables: u64 = conn
        .query_row("select count(*) from sqlite_schema", [], |row| row.get(0))
        .with_context(named)?;
    // An empty one may be a demo that was killed before it made its tables.
    let ours = id == APPLICATION_ID || tables == 0;
    ensure!(ours, "{}: not the file of a demo; it was left as it is", named());
    Ok(())
}

/// Makes the mark and the shop's table, both or neither.
fn claim(db: &Path) -> rusqlite::Result<()> {
    let mut conn = Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let tx = conn.transaction()?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.execute_batch(ORDERS)?;
    tx.commit()
}
