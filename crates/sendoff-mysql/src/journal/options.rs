//! Options of a journal on MySQL and MariaDB.

use std::time::Duration;

use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::check_within;

use crate::options::MysqlOptions;

/// More than a server usually takes in all.
const CONNECTIONS: usize = 1_000;
/// Waiting longer is not patience but a queue that nobody sees.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How a journal works.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// Where it lives, and how it is reached. What concerns an outbox's rows has no meaning here.
    pub server: MysqlOptions,
    /// How long an append or a decision waits for others before it is busy: for a connection, and for
    /// those that exclude it. Whole seconds, as the servers count.
    pub patience: Duration,
    /// How long the server may take besides. A call that is not answered after both has an error,
    /// [`Timeout`](StoreError::Timeout), and its connection is thrown away.
    pub store_timeout: Duration,
    /// Connections for appends, decisions and reads of the journal's own, three or more, lent out
    /// [by what they are for](sendoff_engine::journal::Purpose); further ones wait. Besides these there are up
    /// to two for publishing, and one for each tail and each node.
    pub connections: usize,
}

impl Default for JournalOptions {
    /// As an outbox; 8 connections; 5 s of patience, and 10 s for the server.
    fn default() -> Self {
        Self {
            server: MysqlOptions::default(),
            patience: Duration::from_secs(5),
            store_timeout: Duration::from_secs(10),
            connections: 8,
        }
    }
}

impl JournalOptions {
    /// Validates once, at construction of the store.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.server.check()?;
        check_within("connections", self.connections, 1..=CONNECTIONS)?;
        check_within("patience", self.patience, Duration::from_secs(1)..=PATIENCE)?;
        check_within("store_timeout", self.store_timeout, Duration::from_millis(10)..=PATIENCE)
    }

    /// How long a call waits in all.
    pub(super) fn longest_wait(&self) -> Duration {
        self.patience + self.store_timeout
    }
}
