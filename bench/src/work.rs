//! The work that both sides do.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::BoxFuture;
use sendoff_engine::relay::ClaimMode;
use sendoff_engine::store::Retention;

use crate::load::Writers;

/// A backlog to deliver to a handler that does nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drain {
    /// Rows that are due.
    pub(crate) rows: u64,
    /// Rows in one claim.
    pub(crate) batch: usize,
    /// Connections to work with.
    pub(crate) connections: usize,
    /// What becomes of delivered rows.
    pub(crate) end: End,
    /// Which part of the library delivers.
    pub(crate) by: By,
    /// Whether the events of the first key fail, each time, and nobody waits for them.
    pub(crate) poison: bool,
}

/// The key whose events fail where that is asked for.
pub(crate) const POISON: &str = "key-0";

impl Drain {
    /// The store's option for it.
    pub(crate) fn retention(&self) -> Retention {
        match self.end {
            End::Keep => Retention::default(),
            End::Delete => Retention::DeleteWhenDone,
        }
    }
}

/// What delivers a backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The outbox: one connection claims, another settles.
    Outbox,
    /// The batch relay, a worker for each connection.
    Relay(ClaimMode),
}

/// What becomes of a delivered row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Keep,
    Delete,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Delete => "delete",
        })
    }
}

/// With which statements a backlog is delivered by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statements {
    /// The store's own: what is left is the price of the engine.
    Store,
    /// The plainest that do the same for rows that never fail: the price of the statements as well.
    Plain,
}

/// How an application writes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    /// The guard around the transaction of the store's own driver: the row goes with the commit.
    Guard,
    /// Into a transaction of sqlx.
    Sqlx,
    /// By the function in the database, for any language: a statement of its own.
    SqlFunction,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guard => "guard",
            Self::Sqlx => "sqlx",
            Self::SqlFunction => "sql-function",
        })
    }
}

/// Who writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clients {
    /// How many at once.
    pub(crate) count: usize,
    /// How many keys their events have; none where they have no order.
    pub(crate) keys: u64,
}

impl Clients {
    /// So many, whose events have no keys.
    pub(crate) fn unordered(count: usize) -> Self {
        Self { count, keys: 0 }
    }
}

/// Clients that write, and a process that handles what they wrote.
pub(crate) struct Hot {
    pub(crate) writers: Writers,
    pub(crate) finish: Finish,
}

/// Waits until so many events are handled and marked as done.
pub(crate) type Finish = Box<dyn FnOnce(u64) -> BoxFuture<'static, Result<()>> + Send>;

/// How long a row written for the hot lane is held, by the library's default.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
