//! The journal's store on SQLite: its threads, appends and reads.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, TransactionBehavior};
use sendoff_core::Timestamp;
use sendoff_core::journal::{Append, Ask, Holder, Position, Query};
use sendoff_core::limits;
use sendoff_engine::journal::{
    AppendError, DecideError, Found, JournalStore, Mark, Page, Receipt, TailLook, TailRow,
    TailSource,
};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Migrated, fact};
use tokio::sync::OnceCell;

use super::append::append_all;
use super::conn::{Blocking, at_once};
use super::search::search;
use super::sql::Sql;
use crate::connect::Missing;
use crate::durable::Durability;
use crate::error::failed;
use crate::opened::Opened;
use crate::options::{self, SqliteOptions, Synchronous};
use crate::rows::all;
use crate::schema;
use crate::writer::Writer;

/// How long a call waits for those before it.
const TURN: Duration = Duration::from_secs(10);

/// A journal in an SQLite file. Cheap to clone; its threads end with the last clone.
///
/// It needs no outbox, and has tables and versions of its own. Every call is cancel-safe: a dropped
/// future either never began or ran whole, in one transaction.
#[derive(Clone)]
pub struct SqliteJournal(Arc<Shared>);

struct Shared {
    opened: Opened<Sql>,
    /// Appends.
    writer: Writer,
    /// Everything else, so that reading does not wait for whoever writes.
    reader: Writer,
    /// Cursors, once something is published: they need not wait for who appends, nor for the disk.
    desk: OnceCell<Writer>,
}

impl SqliteJournal {
    /// Opens the file, creating it if need be, and brings its tables up to date.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`](crate::SqliteStore::open).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::start(path.as_ref().to_owned(), SqliteOptions::default(), Missing::Create).await
    }

    /// Like [`open`](Self::open), with options. Appends are as durable as `synchronous` says.
    pub async fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<Self, StoreError> {
        Self::start(path.as_ref().to_owned(), options, Missing::Create).await
    }

    /// Opens the file that a URL names, as [`open_with`](Self::open_with):
    /// `sqlite:relative.db` or `sqlite:///absolute.db`.
    pub async fn open_url_with(url: &str, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::open_with(options::file_of_url(url)?, options).await
    }

    /// Like [`open_url_with`](Self::open_url_with), for tools that look after a journal: a file
    /// without one is refused, and left as it is.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`NotInstalled`](StoreError::NotInstalled) for a file that is
    /// missing, or without a journal.
    pub async fn open_existing_url(url: &str, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::start(options::file_of_url(url)?, options, Missing::Refuse).await
    }

    async fn start(
        path: PathBuf,
        options: SqliteOptions,
        missing: Missing,
    ) -> Result<Self, StoreError> {
        let (sql, synchronous) = (Sql::load(options.prefix.as_ref()), options.synchronous);
        let (opened, writer) = Opened::start(path, options, missing, sql, synchronous).await?;
        let reader = opened.writer(synchronous).await?;
        Ok(Self(Arc::new(Shared { opened, writer, reader, desk: OnceCell::new() })))
    }

    /// A connection of the application's own to the same file.
    pub fn connect(&self) -> Result<Connection, StoreError> {
        self.check_open()?;
        self.0.opened.connect()
    }

    /// The name of the log's table, prefix included.
    pub fn table(&self) -> String {
        self.0.opened.sql.table.clone()
    }

    /// What opening it did to the tables.
    pub fn migrated(&self) -> Migrated {
        self.0.opened.migrated
    }

    /// Closes the journal for all its clones, and returns when what was begun is done.
    pub async fn close(&self) {
        self.0.writer.close().await;
        self.0.reader.close().await;
        if let Some(desk) = self.0.desk.get() {
            desk.close().await;
        }
    }

    /// Whether the journal is open, and its file where it was.
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        self.0.opened.check_open(&self.0.writer)
    }

    pub(super) fn sql(&self) -> &Sql {
        &self.0.opened.sql
    }

    pub(super) fn durability(&self) -> &Durability {
        &self.0.opened.durability
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.opened.now()
    }

    /// Whether everything is there that publishing needs.
    pub(super) async fn check_ready(&self) -> Result<(), StoreError> {
        let sql = Arc::clone(&self.0.opened.sql);
        self.0.reader.call(move |conn| schema::check_ready(conn, &*sql)).await
    }

    /// Writes cursors and what belongs to them, in one transaction.
    pub(super) async fn note<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Sql, Timestamp) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.check_open()?;
        let journal = self.clone();
        let call = move |conn: &mut Connection| {
            let run = || {
                let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
                // By then nobody else writes, and the time is not that of the wait.
                let answer = work(&tx, journal.sql(), journal.now())?;
                tx.commit()?;
                Ok(answer)
            };
            run().map_err(failed)
        };
        self.desk().await?.call(call).await
    }

    async fn desk(&self) -> Result<&Writer, StoreError> {
        self.0.desk.get_or_try_init(|| self.0.opened.writer(Synchronous::Normal)).await
    }

    /// Reads in one snapshot.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Sql) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let sql = Arc::clone(&self.0.opened.sql);
        let call = move |conn: &mut Connection| {
            let tx = conn.transaction_with_behavior(TransactionBehavior::Deferred);
            let tx = tx.map_err(failed)?;
            let answer = work(&tx, &sql)?;
            tx.commit().map_err(failed)?;
            Ok(answer)
        };
        self.0.reader.call(call).await
    }
}

#[async_trait]
impl JournalStore for SqliteJournal {
    /// As long as whoever writes is waited for, and its turn among the calls that came before.
    fn longest_wait(&self) -> Duration {
        self.0.opened.options.busy_timeout + TURN
    }

    async fn append(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        let (journal, append) = (self.clone(), append.clone());
        let call = move |conn: &mut Connection| {
            let run = |conn: &mut Connection| -> Result<Vec<Receipt>, AppendError> {
                let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate);
                let tx = tx.map_err(failed)?;
                let receipts = append_all(&tx, journal.sql(), &append, journal.now())?;
                tx.commit().map_err(failed)?;
                Ok(receipts)
            };
            Ok(run(conn))
        };
        self.0.writer.call(call).await?
    }

    /// Who reads sees every commit up to its snapshot, and positions are in the order of commits.
    async fn mark(&self, _: &Query) -> Result<Mark, DecideError> {
        Ok(self.head().await?.into())
    }

    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError> {
        let query = query.clone();
        let page = Page { limit: page.limit.min(limits::BATCH_ROWS), ..page };
        self.look(move |conn, sql| {
            let (rows, more) = rows(conn, sql, &query, page)?;
            let facts = rows.into_iter().map(|row| row.recorded).collect::<Result<_, _>>();
            let facts = facts.map_err(|error| StoreError::Refused(error.into()))?;
            Ok(Found { facts, more, run: None })
        })
        .await
    }

    async fn head(&self) -> Result<Position, StoreError> {
        self.look(head).await
    }

    /// Whoever writes is seen when it has committed, and holds nobody back until then.
    async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        Ok(Vec::new())
    }

    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError> {
        self.check_open()?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl TailSource for SqliteJournal {
    async fn look(&mut self, ask: Ask, page: Page) -> Result<TailLook, StoreError> {
        let (head, (rows, more)) = Self::look(self, move |conn, sql| {
            Ok((head(conn, sql)?, rows(conn, sql, &Query::all(), page)?))
        })
        .await?;
        Ok(TailLook::alone(ask, head, rows, !more))
    }
}

pub(super) fn head(conn: &Connection, sql: &Sql) -> Result<Position, StoreError> {
    let mut statement = conn.prepare_cached(&sql.head).map_err(failed)?;
    let number: i64 = statement.query_row([], |row| row.get(0)).map_err(failed)?;
    Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()))
}

/// The rows of a page, and whether there may be more. Fetched one by one, so that not more than one is
/// read that does not fit.
fn rows(
    conn: &Connection,
    sql: &Sql,
    query: &Query,
    page: Page,
) -> Result<(Vec<TailRow>, bool), StoreError> {
    let mut fetch = conn.prepare_cached(&sql.fetch).map_err(failed)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for number in at_once(search(&mut Blocking(conn), sql, query, page)).map_err(failed)? {
        let position =
            Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()))?;
        let recorded =
            fetch.query_row([number], |row| Ok(fact::recorded(&mut all(row)))).map_err(failed)?;
        bytes += recorded.as_ref().map_or(0, |fact| fact.event().size());
        if bytes > page.bytes && !rows.is_empty() {
            return Ok((rows, true));
        }
        rows.push(TailRow { position, recorded });
    }
    let full = rows.len() >= page.limit;
    Ok((rows, full))
}

impl fmt::Debug for SqliteJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteJournal").field("path", &self.0.opened.path).finish_non_exhaustive()
    }
}
