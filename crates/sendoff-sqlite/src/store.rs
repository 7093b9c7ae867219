//! The outbox's store on SQLite, and the thread that works for it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use sendoff_core::{Timestamp, limits};
use sendoff_engine::Clock;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Lookout, Migrated};

use crate::connect::Missing;
use crate::durable::Durability;
use crate::error::failed;
use crate::fair;
use crate::file::DatabaseFile;
use crate::locked::LockConnection;
use crate::opened::Opened;
use crate::options::{self, Retention, SqliteOptions, Synchronous};
use crate::schema;
use crate::sql::Sql;
use crate::wake::{LOOK, LastLook};
use crate::writer::Writer;

/// An outbox in an SQLite file. Cheap to clone; its thread ends with the last clone.
///
/// Every call is cancel-safe: a dropped future either never began or ran whole, in one transaction.
/// Rows of a claim that nobody received become visible again when their hold ends.
#[derive(Clone)]
pub struct SqliteStore(Arc<Shared>);

struct Shared {
    opened: Opened<Sql>,
    writer: Writer,
    locks: LockConnection,
    /// The row that the last purge ended at; 0 where it came to the end.
    walked: AtomicI64,
    lookout: Lookout,
    last_look: Arc<LastLook>,
}

impl SqliteStore {
    /// Opens the file, creating it if need be, and brings its tables up to date.
    ///
    /// # Errors
    ///
    /// [`NewerSchema`](StoreError::NewerSchema) if a newer version made the tables;
    /// [`Misconfigured`](StoreError::Misconfigured) for `:memory:` and whatever else is no file;
    /// [`Unavailable`](StoreError::Unavailable) if the file cannot be opened or written.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default()).await
    }

    /// Like [`open`](Self::open), with options.
    pub async fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<Self, StoreError> {
        Self::start(path.as_ref().to_owned(), options, Missing::Create).await
    }

    async fn start(
        path: PathBuf,
        options: SqliteOptions,
        missing: Missing,
    ) -> Result<Self, StoreError> {
        let sql = Sql::load(options.prefix.as_ref());
        // Claims and settlements lost to a power failure only cause another delivery, so they need not
        // wait for the disk.
        let started = Opened::start(path, options, missing, sql, Synchronous::Normal);
        let (opened, writer) = started.await?;
        let store = Self(Arc::new(Shared {
            opened,
            writer,
            locks: LockConnection::new(),
            walked: AtomicI64::new(0),
            lookout: Lookout::every(LOOK),
            last_look: Arc::default(),
        }));
        if store.0.opened.options.tenant_index {
            fair::make_index(&store).await?;
        }
        Ok(store)
    }

    /// Opens the file a URL names: `sqlite:relative/path` or `sqlite:///absolute/path`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`Misconfigured`](StoreError::Misconfigured) for a URL that is
    /// none of these.
    pub async fn open_url(url: &str) -> Result<Self, StoreError> {
        Self::open_url_with(url, SqliteOptions::default()).await
    }

    /// Like [`open_url`](Self::open_url), with options.
    pub async fn open_url_with(url: &str, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::open_with(options::file_of_url(url)?, options).await
    }

    /// Like [`open_url_with`](Self::open_url_with), for tools that look after an outbox: a file
    /// without one is refused, and left as it is.
    ///
    /// # Errors
    ///
    /// As [`open_url`](Self::open_url), and [`NotInstalled`](StoreError::NotInstalled) for a file that is
    /// missing, or without an outbox.
    pub async fn open_existing_url(url: &str, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::start(options::file_of_url(url)?, options, Missing::Refuse).await
    }

    /// A connection of the application's own to the same file: write-ahead logging, foreign keys
    /// on, and the same patience with locks.
    ///
    /// Writing through another connection works as well, as long as it is to the same file.
    pub fn connect(&self) -> Result<Connection, StoreError> {
        self.check_open()?;
        self.0.opened.connect()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.opened.path
    }

    /// The name of the table, prefix included.
    pub fn table(&self) -> String {
        self.0.opened.sql.table.clone()
    }

    /// What opening it did to the tables.
    pub fn migrated(&self) -> Migrated {
        self.0.opened.migrated
    }

    /// Closes the store for all its clones, and returns when what was begun is done.
    ///
    /// Every later call answers [`StoreError::Closed`].
    pub async fn close(&self) {
        self.0.lookout.end();
        self.0.locks.close().await;
        self.0.writer.close().await;
    }

    /// Whether the store is open, and its file where it was.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        self.0.opened.check_open(&self.0.writer)
    }

    pub(crate) fn file(&self) -> &Arc<DatabaseFile> {
        &self.0.opened.file
    }

    pub(crate) fn sql(&self) -> &Arc<Sql> {
        &self.0.opened.sql
    }

    pub(crate) fn walked(&self) -> &AtomicI64 {
        &self.0.walked
    }

    /// Whether connections that events are written through commit durably.
    pub(crate) fn durability(&self) -> &Durability {
        &self.0.opened.durability
    }

    pub(crate) fn lookout(&self) -> &Lookout {
        &self.0.lookout
    }

    pub(crate) fn last_look(&self) -> &Arc<LastLook> {
        &self.0.last_look
    }

    /// What comes to the store as long as it is there, and keeps it from nothing.
    pub(crate) fn weak(&self) -> impl Fn() -> Option<Self> + Send + use<> {
        let shared = Arc::downgrade(&self.0);
        move || shared.upgrade().map(Self)
    }

    pub(crate) fn locks(&self) -> &LockConnection {
        &self.0.locks
    }

    pub(crate) fn busy_timeout(&self) -> Duration {
        self.0.opened.options.busy_timeout
    }

    pub(crate) fn retention(&self) -> Retention {
        self.0.opened.options.retention
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.opened.now()
    }

    /// Whether everything is there that delivering needs.
    pub(crate) async fn check_ready(&self) -> Result<(), StoreError> {
        let sql = Arc::clone(&self.0.opened.sql);
        self.0.writer.call(move |conn| schema::check_ready(conn, &*sql)).await
    }

    /// Runs `work` in an immediate transaction on the store's thread, and commits what it did.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &Sql, Timestamp) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_thread(move |conn, sql, clock| in_transaction(conn, sql, clock, work)).await
    }

    /// Runs `work` on the store's thread, in no transaction: it takes no lock that a writer wants.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Sql, Timestamp) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_thread(move |conn, sql, clock| work(conn, sql, clock.now())).await
    }

    /// Runs `work` on the store's thread.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.writer.call(work).await
    }

    /// How transactions commit that carry events.
    pub(crate) fn synchronous(&self) -> Synchronous {
        self.0.opened.options.synchronous
    }

    pub(crate) async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &Sql, &dyn Clock) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sql, clock) =
            (Arc::clone(&self.0.opened.sql), Arc::clone(&self.0.opened.options.clock));
        self.0.writer.call(move |conn| work(conn, &sql, &*clock).map_err(failed)).await
    }
}

/// Runs `work` in an immediate transaction. The time is read once the lock is ours: a due time must
/// not be older than the wait for it.
pub(crate) fn in_transaction<T>(
    conn: &mut Connection,
    sql: &Sql,
    clock: &dyn Clock,
    work: impl FnOnce(&Transaction<'_>, &Sql, Timestamp) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&tx, sql, clock.now())?;
    // A commit that fails drops the transaction, which rolls it back.
    tx.commit()?;
    Ok(done)
}

/// The due time `after` from `now`, and never `previous`: where a row is held the value is a token, and
/// a clock that stepped back must not hand out the one it replaces.
pub(crate) fn due(now: Timestamp, after: Duration, previous: Option<Timestamp>) -> Timestamp {
    let due_at = now.saturating_add(after.min(limits::DELAY));
    if previous == Some(due_at) { due_at.saturating_add(Duration::from_micros(1)) } else { due_at }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.0.opened.path)
            .field("table", &self.table())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_given_twice_in_a_row() {
        let at = Timestamp::from_micros;
        let hold = Duration::from_micros(30);
        assert_eq!(due(at(100), hold, Some(at(90))), at(130));
        assert_eq!(
            due(at(100), hold, Some(at(130))),
            at(131),
            "the clock stepped back by the hold"
        );
    }
}
