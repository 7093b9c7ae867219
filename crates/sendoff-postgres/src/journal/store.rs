//! The journal's store on PostgreSQL: its connections, appends and reads.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::journal::doctor::{StricterDefault, Vitals};
use sendoff_core::journal::{Append, Holder, HolderId, Locks, Position, Query};
use sendoff_engine::journal::{
    AppendError, Basis, Books, DecideError, Found, JournalStore, Locked, Mark, Page, Purpose,
    Receipt, Remembered, TailSource,
};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Address, Open};
use tokio::time::timeout;

use super::append::{One, Params, is_busy, receipts, refused, run};
use super::connections::Connections;
use super::facts;
use super::held::Check;
use super::locked;
use super::options::{JournalOptions, milliseconds};
use super::reading::Reading;
use super::schema;
use super::tail::PostgresTail;
use crate::bounds::SessionBounds;
use crate::connect::{Commits, Connector};
use crate::link::Kept;
use crate::names::Names;
use crate::options::Doorbell;
use crate::rows::{get, time};
use crate::sql::{Sql, Writes};
use crate::store::PostgresStore;
use crate::wire::At;

/// A journal in a PostgreSQL database. Cheap to clone.
///
/// It needs no outbox, and has tables and versions of its own. Every call is one statement, and
/// cancel-safe: a dropped future either never reached the server or is carried out whole. What it
/// appends is as durable as the server's default makes it.
#[derive(Clone)]
pub struct PostgresJournal(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    options: JournalOptions,
    names: Names,
    sql: Sql,
    connections: Connections,
    books: Books,
    /// Conditions that lately did not hold: the function is asked at once, which says why.
    contended: Remembered<()>,
    /// What takes part in transactions of the application's: it has no connection.
    joins: OnceLock<PostgresStore>,
    open: Open,
}

impl PostgresJournal {
    /// Connects to the database that `url` names. [`migrate`](Self::migrate) installs the tables.
    ///
    /// # Errors
    ///
    /// As [`PostgresStore::connect`](crate::PostgresStore::connect).
    pub async fn connect(url: impl Into<Address>) -> Result<Self, StoreError> {
        Self::connect_with(url, JournalOptions::default()).await
    }

    /// Like [`connect`](Self::connect), with options.
    pub async fn connect_with(
        url: impl Into<Address>,
        options: JournalOptions,
    ) -> Result<Self, StoreError> {
        let journal = Self::connect_lazy(url, options)?;
        let wait = journal.options().longest_wait();
        let checked = timeout(wait, schema::check(&journal)).await;
        checked.unwrap_or(Err(StoreError::Timeout))?;
        Ok(journal)
    }

    /// Like [`connect_with`](Self::connect_with), for a server that need not be there yet: connects when
    /// something is asked for. Publishing looks at the tables as soon as they can be reached.
    ///
    /// # Errors
    ///
    /// As [`PostgresStore::connect_lazy`](crate::PostgresStore::connect_lazy).
    pub fn connect_lazy(
        url: impl Into<Address>,
        options: JournalOptions,
    ) -> Result<Self, StoreError> {
        options.check()?;
        let server = &options.server;
        let bounds = SessionBounds::journal(server);
        let connector = Arc::new(Connector::new(url.into(), server, Commits::Durable, bounds)?);
        let names = Names::new(server.schema.as_ref(), server.prefix.as_ref());
        let kept = Kept::from(server.doorbell);
        let rings = server.doorbell == Doorbell::On;
        let writes = Writes { durable: server.durable_events, rings };
        Ok(Self(Arc::new(Shared {
            sql: Sql::load(&names, writes),
            connections: Connections::new(&connector, kept, options.connections, options.patience),
            books: Books::default(),
            contended: Remembered::default(),
            joins: OnceLock::new(),
            connector,
            options,
            names,
            open: Open::default(),
        })))
    }

    /// Closes the journal for all its clones. Every later call answers [`StoreError::Closed`].
    pub async fn close(&self) {
        self.0.open.close();
        self.0.connections.close().await;
    }

    /// The name of the table, with schema and prefix, ready to be put into SQL.
    pub fn table(&self) -> String {
        self.0.names.qualified("journal_event")
    }

    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        self.0.open.check()
    }

    pub(super) fn connector(&self) -> &Arc<Connector> {
        &self.0.connector
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.0.connections
    }

    pub(super) fn names(&self) -> &Names {
        &self.0.names
    }

    pub(super) fn options(&self) -> &JournalOptions {
        &self.0.options
    }

    pub(super) fn books(&self) -> &Books {
        &self.0.books
    }

    /// Whether statements stay prepared in its sessions, which then are its own.
    pub(super) fn kept(&self) -> Kept {
        Kept::from(self.options().server.doorbell)
    }

    pub(super) fn sql(&self) -> &Sql {
        &self.0.sql
    }

    pub(super) fn in_transactions(&self) -> &PostgresStore {
        let store = || {
            let (connector, options) = (self.connector(), &self.options().server);
            PostgresStore::by(Arc::clone(connector), options.clone())
        };
        self.0.joins.get_or_init(store)
    }

    async fn reading(&self, mut reading: Reading<'_>) -> Result<Found, StoreError> {
        self.check_open()?;
        loop {
            let (statement, params) = (reading.statement(self.sql()), reading.in_order());
            let lent =
                self.connections().lend(Purpose::Read, self.connections().patience()).await?;
            let (run, rows) = lent.link().query_in_run(statement, &params).await?;
            if let Some(found) = reading.found(&rows)? {
                return Ok(Found { run, ..found });
            }
            reading = reading.again();
        }
    }
}

#[async_trait]
impl JournalStore for PostgresJournal {
    fn longest_wait(&self) -> Duration {
        self.options().longest_wait()
    }

    async fn append(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        self.check_open()?;
        let check = Check::of(append);
        if let Some(check) = &check
            && self.0.contended.get(check.key()).is_none()
        {
            if let Some(receipts) = locked::append_at_once(self, append, check).await? {
                return Ok(receipts);
            }
            self.0.contended.put(check.key(), ());
        }
        let mut params = Params::new(self, append)?;
        let patience = self.connections().patience();
        let lent = self.connections().lend(Purpose::of(append), patience).await;
        let lent = lent.map_err(refused)?;
        params.patience = milliseconds(patience.left());
        if let Some(one) = One::of(&params) {
            let statement = &self.sql().journal.append_one;
            let rows = lent.link().query(statement, &one.in_order()).await.map_err(refused)?;
            if !rows.is_empty() {
                return receipts(append, &rows);
            }
            // The id is there already, and the function tells with what.
        }
        let rows = lent.link().query(&self.sql().journal.append, &params.in_order()).await;
        let receipts = receipts(append, &rows.map_err(refused)?)?;
        if let Some(check) = check {
            self.0.contended.forget(check.key());
        }
        Ok(receipts)
    }

    async fn mark(&self, query: &Query) -> Result<Mark, DecideError> {
        self.check_open()?;
        let (keys, alone) = columns(&Locks::of_decision(query));
        let patience = self.connections().patience();
        let lent = self.connections().lend(Purpose::Decide, patience).await.map_err(undecided)?;
        let left = milliseconds(patience.left());
        let decide = &self.sql().journal.decide;
        let rows = lent.link().query(decide, &[&keys, &alone, &left]).await.map_err(undecided)?;
        let row = rows.first().ok_or_else(|| StoreError::Refused(Nothing.into()))?;
        Ok(Mark { position: facts::position(row, 0)?, run: Some(run(get(row, 1)?)) })
    }

    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError> {
        self.read_from_last(Basis { query, closing: None, page }).await
    }

    async fn read_from_last(&self, basis: Basis<'_>) -> Result<Found, StoreError> {
        self.reading(Reading::of(self.books(), basis)).await
    }

    async fn lock(&self, basis: Basis<'_>) -> Result<Option<Locked<'_>>, DecideError> {
        self.check_open()?;
        locked::lock(self, basis).await.map(Some)
    }

    async fn head(&self) -> Result<Position, StoreError> {
        self.check_open()?;
        // Nodes ask for it with every round.
        let head = &self.sql().journal.head;
        let rows = self.connections().query(Purpose::Publish, head, &[]).await?;
        rows.first().map_or(Ok(Position::START), |row| facts::position(row, 0))
    }

    async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        self.check_open()?;
        let rows = self.connections().query(Purpose::Read, &self.sql().journal.who, &[]).await?;
        let holder = |row| {
            Ok(Holder {
                id: HolderId::new(get::<String>(row, 0)?),
                pid: get(row, 1)?,
                gid: get(row, 2)?,
                since: get::<Option<At>>(row, 3)?.map(|At(time): At| -> Timestamp { time }),
                application: get(row, 4)?,
            })
        };
        rows.iter().map(holder).collect()
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        self.check_open()?;
        let rows = self.connections().query(Purpose::Read, &self.sql().journal.vitals, &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Refused(Nothing.into()))?;
        let (whose, levels): (Vec<String>, Vec<String>) = (get(row, 1)?, get(row, 2)?);
        let stricter = whose.into_iter().zip(levels);
        let stricter = stricter.map(|(whose, level)| StricterDefault { whose, level }).collect();
        // What a session says of its commits is settled when it writes.
        Ok(Vitals { now: time(row, 0)?, stricter, forgetful: Vec::new() })
    }

    async fn doing(&self, holder: &Holder) -> Result<Option<String>, StoreError> {
        self.check_open()?;
        let Some(pid) = holder.pid else { return Ok(None) };
        let rows =
            self.connections().query(Purpose::Read, &self.sql().journal.doing, &[&pid]).await?;
        rows.first().map_or(Ok(None), |row| get(row, 0))
    }

    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError> {
        self.check_open()?;
        Ok(Box::new(PostgresTail::open(self.clone()).await?))
    }
}

/// What a failure of the statement that takes locks means.
pub(super) fn undecided(error: StoreError) -> DecideError {
    if is_busy(&error) { DecideError::Busy(error.into()) } else { error.into() }
}

/// A function or statement that always answers did not.
#[derive(Debug, thiserror::Error)]
#[error("a statement that always answers did not")]
pub(super) struct Nothing;

/// Locks as two arrays.
pub(super) fn columns(locks: &Locks) -> (Vec<i32>, Vec<bool>) {
    let alone = |mode| mode == sendoff_core::journal::Mode::Exclusive;
    locks.iter().map(|lock| (lock.key, alone(lock.mode))).unzip()
}

impl fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL: it may hold a password.
        f.debug_struct("PostgresJournal").field("table", &self.table()).finish_non_exhaustive()
    }
}
