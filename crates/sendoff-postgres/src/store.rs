//! The outbox's store on PostgreSQL, and its connections.

use std::fmt;
use std::sync::Arc;

use sendoff_engine::store::frame::{Address, Open};
use sendoff_engine::store::{PassedOver, StoreError};

use crate::bounds::SessionBounds;
use crate::connect::{Commits, Connector};
use crate::link::{Kept, Link, Links};
use crate::locked::LockSessions;
use crate::names::Names;
use crate::options::{Doorbell, Layout, PostgresOptions, RelayCommits, Retention};
use crate::schema;
use crate::sql::{Sql, Writes};
use crate::wake::Bell;

/// An outbox in a PostgreSQL database. Cheap to clone.
///
/// It has up to six connections of its own, opened when they are first needed and again when they
/// are lost: for claims, for settlements, for rows that somebody else has locked, for looking and tidying up,
/// for the doorbell, and for events that are [sent](sendoff_engine::Outbox::send) without a transaction.
/// Batches of the `locked` claim mode have further ones,
/// [as many as the options allow](PostgresOptions::locked_connections).
///
/// Claims and settlements do not wait for the disk (`synchronous_commit` is off in the store's own
/// sessions, [unless told otherwise](PostgresOptions::commits)): what a crash of the server takes back
/// is delivered again. What applications commit is as durable as they have it, and
/// [durable in any case](PostgresOptions::durable_events) where it carries an event.
///
/// Every call is one statement, and cancel-safe: a dropped future either never reached the server or
/// is carried out whole. Rows of a claim that nobody received become visible again when their hold
/// ends.
#[derive(Clone)]
pub struct PostgresStore(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    options: PostgresOptions,
    names: Names,
    sql: Sql,
    links: Links,
    locks: Arc<LockSessions>,
    bell: Bell,
    open: Open,
    /// Rows that make statements fail.
    passed: PassedOver,
}

impl PostgresStore {
    /// Connects to the database that `url` names: `postgres://user:password@host:port/database`, or
    /// PostgreSQL's own `key=value` form. [`migrate`](Self::migrate) installs the tables.
    ///
    /// An [`Address`] can be asked for anew at every connection, so that a password may change.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) for what is no such URL, for a server beyond this
    /// host without TLS, and for a server older than version 13;
    /// [`NewerSchema`](StoreError::NewerSchema) if a newer version made the tables;
    /// [`Unavailable`](StoreError::Unavailable) if the server cannot be reached.
    pub async fn connect(url: impl Into<Address>) -> Result<Self, StoreError> {
        Self::connect_with(url, PostgresOptions::default()).await
    }

    /// Like [`connect`](Self::connect), with options.
    pub async fn connect_with(
        url: impl Into<Address>,
        options: PostgresOptions,
    ) -> Result<Self, StoreError> {
        let store = Self::connect_lazy(url, options)?;
        schema::check(&store).await?;
        Ok(store)
    }

    /// Like [`connect_with`](Self::connect_with), for a server that need not be there yet: connects when
    /// something is asked for. An outbox that starts looks at its tables as soon as they can be reached.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) for what is no URL of a PostgreSQL database, and for
    /// a server beyond this host without TLS.
    pub fn connect_lazy(
        url: impl Into<Address>,
        options: PostgresOptions,
    ) -> Result<Self, StoreError> {
        options.check()?;
        let commits = match options.commits {
            RelayCommits::Relaxed => Commits::Relaxed,
            RelayCommits::Durable => Commits::Durable,
        };
        let bounds = SessionBounds::outbox(&options);
        let connector = Arc::new(Connector::new(url.into(), &options, commits, bounds)?);
        Ok(Self::by(connector, options))
    }

    /// By connections that are made in this way, each when it is first needed.
    pub(crate) fn by(connector: Arc<Connector>, options: PostgresOptions) -> Self {
        let names = Names::new(options.schema.as_ref(), options.prefix.as_ref());
        let link = || Link::new(Arc::clone(&connector), Kept::from(options.doorbell));
        let links = Links {
            claims: link(),
            settlements: link(),
            turns: link(),
            upkeep: link(),
            sends: link(),
        };
        let locks = LockSessions::new(
            Arc::clone(&connector),
            Kept::from(options.doorbell),
            options.locked_connections,
        );
        let rings = options.doorbell == Doorbell::On;
        let writes = Writes { durable: options.durable_events, rings };
        Self(Arc::new(Shared {
            sql: Sql::load(&names, writes),
            bell: Bell::new(names.channel()),
            connector,
            options,
            names,
            links,
            locks: Arc::new(locks),
            open: Open::default(),
            passed: PassedOver::default(),
        }))
    }

    /// Closes the store for all its clones.
    ///
    /// Every later call answers [`StoreError::Closed`]; what is under way is finished.
    pub async fn close(&self) {
        self.0.open.close();
        self.0.bell.silence();
        self.0.locks.close();
        let Links { claims, settlements, turns, upkeep, sends } = &self.0.links;
        for link in [claims, settlements, turns, upkeep, sends] {
            link.close().await;
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        self.0.open.check()
    }

    pub(crate) fn connector(&self) -> &Arc<Connector> {
        &self.0.connector
    }

    pub(crate) fn names(&self) -> &Names {
        &self.0.names
    }

    pub(crate) fn sql(&self) -> &Sql {
        &self.0.sql
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.0.bell
    }

    pub(crate) fn links(&self) -> &Links {
        &self.0.links
    }

    pub(crate) fn locks(&self) -> &Arc<LockSessions> {
        &self.0.locks
    }

    pub(crate) fn retention(&self) -> Retention {
        self.0.options.retention
    }

    pub(crate) fn passed(&self) -> &PassedOver {
        &self.0.passed
    }

    pub(crate) fn wants_tenant_index(&self) -> bool {
        self.0.options.tenant_index
    }

    pub(crate) fn layout(&self) -> Layout {
        self.0.options.layout
    }

    pub(crate) fn doorbell(&self) -> Doorbell {
        self.0.options.doorbell
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL: it may hold a password.
        f.debug_struct("PostgresStore").field("table", &self.table()).finish_non_exhaustive()
    }
}
