//! Options of a journal on PostgreSQL.

use std::time::Duration;

use sendoff_core::Ident;
use sendoff_core::journal::retain::Ranges;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::check_within;

use crate::error::misconfigured;
use crate::layout::Lines;
use crate::options::PostgresOptions;

/// More than a server usually takes in all.
const CONNECTIONS: usize = 1_000;
/// Waiting longer is not patience but a queue that nobody sees.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Characters of a prefix, where partitions are named after the positions in them: PostgreSQL cuts
/// names at 63 bytes, and the longest of ours has 38.
const PARTITIONED_PREFIX: usize = 25;

/// How a journal's tables are laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JournalLayout {
    /// One table for the facts, and one for their tags.
    #[default]
    Flat,
    /// Both in partitions, each of a range of positions, so that what is over goes at once instead of
    /// row by row. Needs a [`JournalMaintainer`](sendoff_engine::journal::retain::JournalMaintainer).
    ///
    /// What no partition is there for yet falls into a tail, and is moved later. An append costs a row
    /// more for each fact: ids are kept in a table of their own, so that each is there once.
    Partitioned(Ranges),
}

impl JournalLayout {
    /// In partitions as they are cut by default.
    pub const PARTITIONED: Self = Self::Partitioned(Ranges::DEFAULT);
}

impl From<JournalLayout> for Lines {
    fn from(layout: JournalLayout) -> Self {
        match layout {
            JournalLayout::Flat => Self::Flat,
            JournalLayout::Partitioned(_) => Self::Partitioned,
        }
    }
}

/// How a journal works.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// Where it lives, and how it is reached. What concerns delivered rows has no meaning here; with
    /// the doorbell off nothing of a session is used, as it must be behind a transaction pooler.
    pub server: PostgresOptions,
    /// How its tables are laid out where [`migrate`](crate::PostgresJournal::migrate) makes them. Those
    /// that are there stay as they are, and a journal works with either.
    pub layout: JournalLayout,
    /// Connections for appends, decisions and reads of the journal's own, three or more, lent out
    /// [by what they are for](sendoff_engine::journal::Purpose); further ones wait. Besides these there are up
    /// to two for publishing, and one for each tail and each node.
    pub connections: usize,
    /// How long an append or a decision waits for others before it is busy: for a connection, and for
    /// those that exclude it.
    pub patience: Duration,
    /// How long the server may take besides. A call that is not answered after both has an error,
    /// [`Timeout`](StoreError::Timeout), and its connection is thrown away.
    pub store_timeout: Duration,
}

impl Default for JournalOptions {
    /// As an outbox, flat; 8 connections; 5 s of patience, and 10 s for the server.
    fn default() -> Self {
        Self {
            server: PostgresOptions::default(),
            layout: JournalLayout::default(),
            connections: 8,
            patience: Duration::from_secs(5),
            store_timeout: Duration::from_secs(10),
        }
    }
}

impl JournalOptions {
    /// Validates once, at construction of the store.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.server.check()?;
        let prefix = self.server.prefix.as_ref().map_or(0, |prefix: &Ident| prefix.as_str().len());
        if self.layout != JournalLayout::Flat && prefix > PARTITIONED_PREFIX {
            return Err(misconfigured(format!(
                "prefix has {prefix} characters; for a journal in partitions it has \
                 {PARTITIONED_PREFIX} at most, because their names are long"
            )));
        }
        check_within("connections", self.connections, 1..=CONNECTIONS)?;
        check_within("patience", self.patience, Duration::from_millis(1)..=PATIENCE)?;
        check_within("store_timeout", self.store_timeout, Duration::from_millis(10)..=PATIENCE)
    }

    /// How long a call waits in all.
    pub(super) fn longest_wait(&self) -> Duration {
        self.patience + self.store_timeout
    }

    /// In milliseconds, as the server counts it.
    pub(super) fn patience(&self) -> i32 {
        milliseconds(self.patience)
    }
}

/// As the server counts patience, for which none would be no limit.
pub(super) fn milliseconds(patience: Duration) -> i32 {
    i32::try_from(patience.as_millis()).unwrap_or(i32::MAX).max(1)
}
