//! A file that was opened for an outbox or a journal: what both need of it.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use sendoff_core::Timestamp;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::Migrated;

use crate::connect::{Missing, connect};
use crate::durable::Durability;
use crate::file::DatabaseFile;
use crate::options::{self, SqliteOptions, Synchronous};
use crate::schema::{self, Schema};
use crate::writer::Writer;

/// The file, its statements, and how it is worked with.
pub(crate) struct Opened<S> {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<DatabaseFile>,
    pub(crate) options: SqliteOptions,
    pub(crate) sql: Arc<S>,
    /// Whether connections that are written through commit durably.
    pub(crate) durability: Durability,
    /// What opening it did to the tables.
    pub(crate) migrated: Migrated,
}

impl<S: Schema + Send + Sync + 'static> Opened<S> {
    /// Opens the file and brings its tables up to date, on the first thread that works for it.
    pub(crate) async fn start(
        path: PathBuf,
        options: SqliteOptions,
        missing: Missing,
        sql: S,
        synchronous: Synchronous,
    ) -> Result<(Self, Writer), StoreError> {
        options::check_path(&path)?;
        options.check()?;
        let (sql, file) = (Arc::new(sql), Arc::new(DatabaseFile::at(&path)));
        let migrated = Arc::new(OnceLock::new());
        let open = {
            let (path, sql, done) = (path.clone(), Arc::clone(&sql), Arc::clone(&migrated));
            let busy_timeout = options.busy_timeout;
            move || {
                if missing == Missing::Refuse {
                    schema::check_installed(&path, &*sql, busy_timeout)?;
                }
                let mut conn = connect(&path, missing, busy_timeout, synchronous)?;
                let _ = done.set(schema::migrate(&mut conn, &*sql)?);
                Ok(conn)
            }
        };
        let writer = Writer::start(Arc::clone(&file), options.busy_timeout, open).await?;
        let newest = sql.migrations().len();
        let migrated = migrated.get().copied().unwrap_or(Migrated::ran(0, newest));
        let durability = Durability::new(options.synchronous);
        Ok((Self { path, file, options, sql, durability, migrated }, writer))
    }

    /// Another thread that works for it.
    pub(crate) async fn writer(&self, synchronous: Synchronous) -> Result<Writer, StoreError> {
        let (path, busy_timeout) = (self.path.clone(), self.options.busy_timeout);
        let open = move || connect(&path, Missing::Refuse, busy_timeout, synchronous);
        Writer::start(Arc::clone(&self.file), busy_timeout, open).await
    }

    /// A connection of the application's own.
    pub(crate) fn connect(&self) -> Result<Connection, StoreError> {
        let SqliteOptions { busy_timeout, synchronous, .. } = self.options;
        connect(&self.path, Missing::Refuse, busy_timeout, synchronous)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// Whether it is open, as long as this thread works for it, and its file where it was.
    pub(crate) fn check_open(&self, writer: &Writer) -> Result<(), StoreError> {
        if writer.is_closed() {
            return Err(StoreError::Closed);
        }
        Ok(self.file.check()?)
    }
}
