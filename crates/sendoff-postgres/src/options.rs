//! Options of an outbox on PostgreSQL.

use std::ops::RangeInclusive;
use std::time::Duration;

use sendoff_core::Ident;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{self, check_within};
pub use sendoff_engine::store::{Layout, Retention};

use crate::error::misconfigured;

/// How a store works. `Default` suits one outbox in the schema `public`, on a direct connection.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The schema that everything lives in; `public` where none is given. Folded to lower case, as
    /// PostgreSQL folds a name that is not quoted.
    pub schema: Option<Ident>,
    /// Put before every name: `billing_` makes `billing_outbox_event`. Outboxes with different
    /// prefixes live side by side in one schema.
    pub prefix: Option<Ident>,
    /// How the table is laid out where [`migrate`](crate::PostgresStore::migrate) makes it. One that
    /// is there stays as it is, and the store works with either. In partitions an id that is written
    /// twice is refused within one statement.
    pub layout: Layout,
    /// What becomes of delivered rows.
    pub retention: Retention,
    /// Whether writers wake a sleeping relay.
    pub doorbell: Doorbell,
    /// How the connections are secured.
    pub tls: Tls,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// Connections that batches of the `locked` claim mode may use, one for each batch that is open;
    /// further ones wait. Opened when they are first needed.
    pub locked_connections: usize,
    /// How long the server works on one statement of ours before it gives up. A little longer than
    /// the engine waits for it.
    pub statement_timeout: Duration,
    /// How long a transaction of ours may be silent before the server ends it, with all it locked: a
    /// process that was stopped, or cut off, must not keep others from their work. A `locked` batch
    /// whose handlers run is never silent that long.
    pub idle_in_transaction_timeout: Duration,
    /// What a commit of the relay is worth.
    pub commits: RelayCommits,
    /// Whether a transaction that carries an event commits durably also where its session said
    /// `synchronous_commit = off`: `off` becomes `local` for that transaction, in the statement that
    /// writes the event, and every other value stays. Without it a crash of the server may take back
    /// a transaction whose event was delivered already. The function `sendoff_emit` does the same
    /// unless the session's `sendoff_emit.durable_events` is `off`.
    pub durable_events: bool,
    /// Whether [`migrate`](crate::PostgresStore::migrate) makes the index that
    /// [fair claims](sendoff_engine::OutboxOptions::fair) need, where it is missing. One that is there stays, and
    /// costs every write a little.
    pub tenant_index: bool,
}

impl Default for PostgresOptions {
    /// `public`, no prefix, seven days of retention, the doorbell on, TLS beyond this host, 5 s to
    /// connect, 15 s for a statement, 12 s for silence in a transaction, relaxed commits of the relay
    /// and durable ones of events, 8 connections for locked batches, no index for fair claims.
    fn default() -> Self {
        Self {
            schema: None,
            prefix: None,
            layout: Layout::default(),
            retention: Retention::default(),
            doorbell: Doorbell::default(),
            tls: Tls::default(),
            connect_timeout: Duration::from_secs(5),
            locked_connections: 8,
            statement_timeout: Duration::from_secs(15),
            idle_in_transaction_timeout: SILENCE,
            commits: RelayCommits::default(),
            durable_events: true,
            tenant_index: false,
        }
    }
}

impl PostgresOptions {
    /// Validates once, at construction of the store.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let schema = self.schema.as_ref().map_or("", Ident::as_str);
        if schema.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("pg_")) {
            return Err(misconfigured(format!(
                "schema {schema:?}: PostgreSQL keeps names that begin with `pg_` for itself; choose \
                 another"
            )));
        }
        check_within("locked_connections", self.locked_connections, 1..=LOCKED_CONNECTIONS)?;
        check_within("connect_timeout", self.connect_timeout, TIMEOUTS)?;
        check_within("statement_timeout", self.statement_timeout, TIMEOUTS)?;
        check_within("idle_in_transaction_timeout", self.idle_in_transaction_timeout, IDLE)
    }
}

/// Others have what a process had locked that froze within 15 s: the server's second, and the time until
/// they look again, are to spare.
const SILENCE: Duration = Duration::from_secs(12);

/// Shorter would end batches whose handlers run; longer is no protection.
const IDLE: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(10 * 60);

/// Shorter is no chance to succeed; longer is not patience but a failure nobody sees.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10 * 60);

/// More than a server usually takes in all.
const LOCKED_CONNECTIONS: usize = 1_000;

/// What a commit of the relay's own sessions is worth. Events are as durable as their own transaction
/// is, either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RelayCommits {
    /// Claims and settlements do not wait for the disk (`synchronous_commit` is off): a crash of the
    /// server may take the last of them back, and what they were about is delivered again. Attempts
    /// that are counted for a holder who vanished are on the disk in any case.
    #[default]
    Relaxed,
    /// As the server, the database or the role has it.
    Durable,
}

/// Whether a relay that found nothing to do is woken by whoever writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Doorbell {
    /// A sleeping relay is rung with `NOTIFY`; one that is awake never is.
    #[default]
    On,
    /// The relay only polls. Then nothing of the session is used (no `LISTEN`, no prepared
    /// statement, no setting), as it must be behind a transaction pooler such as `PgBouncer`; and
    /// no transaction notifies, as it must be where transactions are `PREPARE`d.
    Off,
}

/// How connections are secured. `Auto` is plain text also where the URL says `sslmode=disable`, and verifies
/// against the system's roots.
#[cfg(feature = "tls-rustls")]
pub type Tls = frame::Tls<std::sync::Arc<rustls::ClientConfig>>;
/// How connections are secured. `Auto` is plain text also where the URL says `sslmode=disable`, and verifies
/// against the system's roots.
#[cfg(not(feature = "tls-rustls"))]
pub type Tls = frame::Tls<std::convert::Infallible>;
