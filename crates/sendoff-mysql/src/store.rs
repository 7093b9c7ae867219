//! The outbox's store on MySQL and MariaDB, and its connections.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sendoff_engine::store::frame::{Address, Lookout, Open};
use sendoff_engine::store::{PassedOver, StoreError};

use crate::connect::{Connector, Reached};
use crate::link::{Link, Links};
use crate::locked::LockSessions;
use crate::names::Names;
use crate::options::{Layout, MysqlOptions, Retention};
use crate::schema;
use crate::settle::{HasKeys, Wary};
use crate::sql::Sql;
use crate::wake::{Idle, LOOK};

/// An outbox in a MySQL or MariaDB database. Cheap to clone.
///
/// It has up to six connections of its own, opened when they are first needed and again when they
/// are lost: for claims, for proofs of commits, for settlements, for rows that somebody else has locked, for
/// looking and tidying up, and for events that are [sent](sendoff_engine::Outbox::send) without a transaction; and one more for each batch of the `locked` claim mode that is open. They work at READ COMMITTED, and
/// nothing they do depends on a session's time zone. The server ends those that go silent.
///
/// Every call is one short transaction in one round trip, so that whoever freezes has nothing locked;
/// and cancel-safe: a dropped future either never reached the
/// server, or is carried out whole, or is undone. Rows of a claim that nobody received become visible
/// again when their hold ends.
#[derive(Clone)]
pub struct MysqlStore(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    options: MysqlOptions,
    names: Names,
    sql: Sql,
    links: Links,
    /// How many connections of the links broke.
    lost: Arc<AtomicU64>,
    locks: Arc<LockSessions>,
    open: Open,
    /// Rows that make statements fail.
    passed: PassedOver,
    wary: Wary,
    has_keys: HasKeys,
    lookout: Lookout,
    idle: Idle,
}

impl MysqlStore {
    /// Connects to the database that `url` names: `mysql://user:password@host:port/database`, or the
    /// same with `mariadb:`. [`migrate`](Self::migrate) installs the tables.
    ///
    /// An [`Address`] can be asked for anew at every connection, so that a password may change.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) for what is no such URL, for a user, password or
    /// database that the server does not know, for a server beyond this host without TLS, and for one
    /// older than MySQL 8.0.17 or MariaDB 10.6; [`NewerSchema`](StoreError::NewerSchema) if a newer
    /// version made the tables; [`Unavailable`](StoreError::Unavailable) if the server cannot be
    /// reached.
    pub async fn connect(url: impl Into<Address>) -> Result<Self, StoreError> {
        Self::connect_with(url, MysqlOptions::default()).await
    }

    /// Like [`connect`](Self::connect), with options.
    pub async fn connect_with(
        url: impl Into<Address>,
        options: MysqlOptions,
    ) -> Result<Self, StoreError> {
        options.check()?;
        let at = Reached::ask(url.into(), options.connect_timeout).await?;
        let store = Self::at(&at, options)?;
        schema::check(&store).await?;
        Ok(store)
    }

    /// Like [`connect_with`](Self::connect_with), for a server that need not be there yet: connects when
    /// something is asked for. An outbox that starts looks at its tables as soon as they can be reached.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) for what is no URL of a MySQL or MariaDB database, and
    /// for a server beyond this host without TLS.
    pub fn connect_lazy(url: &str, options: MysqlOptions) -> Result<Self, StoreError> {
        options.check()?;
        Self::at(&url.into(), options)
    }

    fn at(at: &Reached, options: MysqlOptions) -> Result<Self, StoreError> {
        let connector = Arc::new(Connector::limited(at, &options)?);
        let batches = Arc::new(Connector::for_batches(at, &options)?);
        Ok(Self::by(connector, batches, options))
    }

    /// By connections that are made in this way, each when it is first needed.
    pub(crate) fn by(
        connector: Arc<Connector>,
        batches: Arc<Connector>,
        options: MysqlOptions,
    ) -> Self {
        let names = Names::new(Some(connector.database()), options.prefix.as_ref());
        let lost = Arc::<AtomicU64>::default();
        let link = || Link::counted(Arc::clone(&connector), Arc::clone(&lost));
        let links = Links {
            claims: link(),
            proofs: link(),
            settlements: link(),
            turns: link(),
            upkeep: link(),
            sends: link(),
        };
        let locks = LockSessions::new(batches, options.locked_connections);
        Self(Arc::new(Shared {
            sql: Sql::load(&names),
            locks: Arc::new(locks),
            connector,
            options,
            names,
            links,
            lost,
            open: Open::default(),
            passed: PassedOver::default(),
            wary: Wary::default(),
            has_keys: HasKeys::default(),
            lookout: Lookout::every(LOOK),
            idle: Idle::default(),
        }))
    }

    /// Closes the store for all its clones.
    ///
    /// Every later call answers [`StoreError::Closed`]; what is under way is finished.
    pub async fn close(&self) {
        self.0.open.close();
        self.0.lookout.end();
        self.0.locks.close();
        let Links { claims, proofs, settlements, turns, upkeep, sends } = &self.0.links;
        for link in [claims, proofs, settlements, turns, upkeep, sends] {
            link.close().await;
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        self.0.open.check()
    }

    pub(crate) fn lost_links(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.0.connector
    }

    pub(crate) fn names(&self) -> &Names {
        &self.0.names
    }

    pub(crate) fn sql(&self) -> &Sql {
        &self.0.sql
    }

    pub(crate) fn links(&self) -> &Links {
        &self.0.links
    }

    pub(crate) fn locks(&self) -> &Arc<LockSessions> {
        &self.0.locks
    }

    pub(crate) fn passed(&self) -> &PassedOver {
        &self.0.passed
    }

    pub(crate) fn lookout(&self) -> &Lookout {
        &self.0.lookout
    }

    pub(crate) fn idle(&self) -> &Idle {
        &self.0.idle
    }

    /// What comes to the store as long as it is there, and keeps it from nothing.
    pub(crate) fn weak(&self) -> impl Fn() -> Option<Self> + Send + use<> {
        let shared = Arc::downgrade(&self.0);
        move || shared.upgrade().map(Self)
    }

    pub(crate) fn wary(&self) -> &Wary {
        &self.0.wary
    }

    pub(crate) fn has_keys(&self) -> &HasKeys {
        &self.0.has_keys
    }

    pub(crate) fn options(&self) -> &MysqlOptions {
        &self.0.options
    }

    pub(crate) fn retention(&self) -> Retention {
        self.0.options.retention
    }

    pub(crate) fn is_partitioned(&self) -> bool {
        self.0.options.layout != Layout::Flat
    }
}

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL: it may hold a password.
        f.debug_struct("MysqlStore").field("table", &self.table()).finish_non_exhaustive()
    }
}
