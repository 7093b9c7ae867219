//! The demo in an SQLite file, with the handler's record beside it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rusqlite::{Connection, OpenFlags};
use sendoff::any::AnyStore;
use sendoff::sqlite::{Retention, SqliteOptions, SqliteStore, Synchronous};
use sendoff::{EventId, Outbox, Status, Timestamp};
use tempfile::TempDir;

use super::desk::{Desk, Earlier, End, NewOrder, OutboxRow, PlacedOrder};
use super::text;
use crate::demo::options::Options;
use crate::demo::record::FileRecord;
use crate::demo::stand::Stand;

/// Marks a database as the demo's, so that --resume never puts tables into somebody else's.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"Send");
const ORDERS: &str = include_str!("../sql/sqlite/orders.sql");
const PENDING: &str = include_str!("../sql/sqlite/pending.sql");
const ROWS_AFTER: &str = include_str!("../sql/sqlite/rows_after.sql");

/// The database, and the handler's record beside it.
#[derive(Debug)]
pub(crate) struct DemoFile {
    db: PathBuf,
    pub(super) store: AnyStore,
    /// Open to append, and locked: two demos on one file would judge each other's deliveries.
    deliveries: File,
    /// Removed when dropped.
    folder: Option<TempDir>,
}

impl DemoFile {
    pub(super) async fn prepare(options: &Options) -> anyhow::Result<Self> {
        let (db, folder) = match options.file()? {
            None => {
                let folder = tempfile::Builder::new()
                    .prefix("sendoff-demo-")
                    .tempdir()
                    .context("no temporary folder could be made; give a file with --db")?;
                (folder.path().join("demo.db"), Some(folder))
            }
            Some(db) => {
                if options.resume {
                    check_resumable(&db)?;
                } else {
                    check_free(&db)?;
                }
                (db, None)
            }
        };
        if !options.resume {
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
        let store = SqliteStore::open_with(&db, store_options(options))
            .await
            .with_context(|| format!("--db {}", db.display()))?;
        Ok(Self { db, store: AnyStore::Sqlite(store), deliveries, folder })
    }

    pub(super) fn described(&self) -> String {
        match &self.folder {
            Some(_) => "a temporary file".to_owned(),
            None => self.db.display().to_string(),
        }
    }

    pub(super) fn what_is_left(&self) -> Option<String> {
        let (db, deliveries) = (self.db.display(), deliveries_of(&self.db));
        self.folder.is_none().then(|| format!("{db} and {} are left", deliveries.display()))
    }

    pub(super) fn record(&self) -> anyhow::Result<FileRecord> {
        Ok(FileRecord::new(self.deliveries.try_clone()?, deliveries_of(&self.db)))
    }

    pub(super) fn desk(&self, outbox: &Outbox<AnyStore>) -> anyhow::Result<Box<dyn Desk>> {
        let outbox = AnyStore::through_sqlite(outbox).context("no store of SQLite")?;
        Ok(Box::new(FileDesk { conn: outbox.store().connect()?, outbox }))
    }
}

fn store_options(options: &Options) -> SqliteOptions {
    SqliteOptions {
        // The demo shows what a crash of the process does; nobody watches it through a power cut.
        synchronous: Synchronous::Normal,
        retention: if options.forgets() { Retention::DeleteWhenDone } else { Retention::default() },
        ..SqliteOptions::default()
    }
}

#[derive(Debug)]
struct FileDesk {
    conn: Connection,
    outbox: Outbox<SqliteStore>,
}

impl FileDesk {
    fn prepared(&self, text: &str) -> rusqlite::Result<rusqlite::CachedStatement<'_>> {
        self.conn.prepare_cached(&text::in_file(text))
    }
}

impl Desk for FileDesk {
    fn transact(&mut self, order: &NewOrder<'_>, end: End) -> anyhow::Result<()> {
        let place = text::in_file(text::PLACE);
        let mut tx = self.outbox.begin_blocking(&mut self.conn)?;
        tx.prepare_cached(&place)?.execute((
            order.number(),
            order.event.id().as_bytes(),
            order.digest(),
            order.customer,
            order.total_cents,
        ))?;
        tx.emit(order.event)?;
        match end {
            End::Commit => tx.commit()?,
            End::RollBack => tx.rollback()?,
        };
        Ok(())
    }

    fn is_placed(&mut self, id: EventId) -> anyhow::Result<bool> {
        Ok(self.prepared(text::IS_PLACED)?.query_row([id.as_bytes()], |row| row.get(0))?)
    }

    fn earlier(&mut self) -> anyhow::Result<Earlier> {
        let earlier = self.prepared(text::EARLIER)?.query_row([], |row| {
            Ok(Earlier { written: row.get(0)?, last_order: row.get(1)?, dead: row.get(2)? })
        });
        Ok(earlier?)
    }

    fn stand(&mut self) -> anyhow::Result<Stand> {
        let mut stand = Stand::default();
        let mut pending = self.prepared(PENDING)?;
        let mut rows = pending.query([])?;
        let now = Timestamp::now();
        while let Some(row) = rows.next()? {
            let age = now.since(Timestamp::from_micros(row.get(2)?));
            stand.add(Status::try_from(row.get::<_, i64>(0)?)?, row.get(1)?, age);
        }
        Ok(stand)
    }

    fn orders_after(&mut self, number: u64) -> anyhow::Result<Vec<PlacedOrder>> {
        let mut orders = self.prepared(text::ORDERS_AFTER)?;
        let orders = orders
            .query_map([number], |row| Ok(PlacedOrder::new(row.get(0)?, row.get(1)?, row.get(2)?)));
        Ok(orders?.collect::<Result<_, _>>()?)
    }

    fn rows_after(&mut self, seq: i64) -> anyhow::Result<Vec<OutboxRow>> {
        let mut statement = self.prepared(ROWS_AFTER)?;
        let (mut rows, mut all) = (statement.query([seq])?, Vec::new());
        while let Some(row) = rows.next()? {
            all.push(OutboxRow {
                seq: row.get(0)?,
                id: EventId::from_bytes(row.get(1)?),
                status: Status::try_from(row.get::<_, i64>(2)?)?,
                attempts: row.get(3)?,
            });
        }
        Ok(all)
    }

    fn forget_orders(&mut self, up_to: u64) -> anyhow::Result<()> {
        self.prepared(text::FORGET_ORDERS)?.execute([up_to])?;
        Ok(())
    }
}

fn deliveries_of(db: &Path) -> PathBuf {
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
