//! Options of an outbox on MySQL and MariaDB.

use std::time::Duration;

use sendoff_core::Ident;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{self, check_within};
pub use sendoff_engine::store::{Layout, Payloads, Retention};

/// How a store works. `Default` suits one outbox in the database that the URL names.
#[derive(Debug, Clone)]
pub struct MysqlOptions {
    /// Put before every name: `billing_` makes `billing_outbox_event`. Outboxes with different
    /// prefixes live side by side in one database. Folded to lower case.
    pub prefix: Option<Ident>,
    /// What becomes of delivered rows.
    pub retention: Retention,
    /// How the table is laid out. Decides what the migrations make; a table that is there stays as it
    /// is. In partitions, looking for an event by its id asks every one of them.
    pub layout: Layout,
    /// What the table takes for a payload. Decides what the migrations make.
    pub payloads: Payloads,
    /// How the connections are secured.
    pub tls: Tls,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// The most connections that batches of the `locked` claim mode keep at a time, one each. More
    /// batches wait.
    pub locked_connections: usize,
    /// How long a statement of ours waits for a lock where it cannot pass it by: of the whole table,
    /// say. Rows that somebody else has locked are passed by and not waited for. Whole seconds.
    pub lock_timeout: Duration,
    /// After how long a silence the server ends a transaction of ours: that of a process that froze, with
    /// its locks. Whole seconds, at least 10: batches of the `locked` claim mode say every few seconds
    /// that they are alive.
    pub idle_in_transaction_timeout: Duration,
    /// Whether [`migrate`](crate::MysqlStore::migrate) makes the index that
    /// [fair claims](sendoff_engine::OutboxOptions::fair) need, with a column for it, where it is missing. One that
    /// is there stays, and costs every write a little.
    pub tenant_index: bool,
}

impl Default for MysqlOptions {
    /// No prefix, seven days of retention, one flat table, payloads of any kind, TLS beyond this host,
    /// 5 s to connect, 2 s for a lock, 8 connections for locked batches, 12 s for a silent transaction,
    /// no index for fair claims.
    fn default() -> Self {
        Self {
            prefix: None,
            retention: Retention::default(),
            layout: Layout::default(),
            payloads: Payloads::default(),
            tls: Tls::default(),
            connect_timeout: Duration::from_secs(5),
            locked_connections: 8,
            lock_timeout: Duration::from_secs(2),
            idle_in_transaction_timeout: SILENCE,
            tenant_index: false,
        }
    }
}

impl MysqlOptions {
    /// Validates once, at construction of the store.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        check_within("locked_connections", self.locked_connections, 1..=LOCKED_CONNECTIONS)?;
        for (field, value, least) in [
            ("connect_timeout", self.connect_timeout, Duration::from_millis(10)),
            ("lock_timeout", self.lock_timeout, Duration::from_secs(1)),
            (
                "idle_in_transaction_timeout",
                self.idle_in_transaction_timeout,
                Duration::from_secs(10),
            ),
        ] {
            check_within(field, value, least..=LONGEST_TIMEOUT)?;
        }
        Ok(())
    }
}

/// Each is a connection of the server's, of which it has a few hundred for everybody.
const LOCKED_CONNECTIONS: usize = 1_000;

/// Others have what a process had locked that froze within 15 s: the server's second, and the time until
/// they look again, are to spare.
const SILENCE: Duration = Duration::from_secs(12);

/// Longer is not patience but a failure nobody sees.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How connections are secured. What the URL says of TLS (`require_ssl=true`, …) goes before it.
#[cfg(feature = "tls-rustls")]
pub type Tls = frame::Tls<Box<mysql_async::SslOpts>>;
/// How connections are secured. What the URL says of TLS (`require_ssl=true`, …) goes before it.
#[cfg(not(feature = "tls-rustls"))]
pub type Tls = frame::Tls<std::convert::Infallible>;
