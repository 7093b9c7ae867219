use std::time::Duration;

use sendoff_engine::store::StoreError;

use crate::error::misconfigured;
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
    /// Connections for appends, decisions and reads of the journal's own; further ones wait. Decisions,
    /// which wait for one another's locks, have all but a quarter of them, at least two of which are
    /// left to appends and reads; appends leave one to reads. So let there be three or more. Besides
    /// these there are up to two for publishing, and one for each tail and each node.
    pub connections: usize,
    /// How long an append or a decision waits for others that exclude it before it is busy. Whole
    /// seconds, as the servers count.
    pub patience: Duration,
}

impl Default for JournalOptions {
    /// As an outbox; 8 connections; 5 s of patience.
    fn default() -> Self {
        Self { server: MysqlOptions::default(), connections: 8, patience: Duration::from_secs(5) }
    }
}

impl JournalOptions {
    /// Validates once, at construction of the store.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.server.check()?;
        if !(1..=CONNECTIONS).contains(&self.connections) {
            return Err(misconfigured(format!(
                "connections is {}; it lies between 1 and {CONNECTIONS}",
                self.connections
            )));
        }
        if self.patience < Duration::from_secs(1) || self.patience > PATIENCE {
            return Err(misconfigured(format!(
                "patience is {:?}; it lies between 1 s and {PATIENCE:?}",
                self.patience
            )));
        }
        Ok(())
    }
}
