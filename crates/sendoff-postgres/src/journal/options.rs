use std::time::Duration;

use sendoff_engine::store::StoreError;

use crate::error::misconfigured;
use crate::options::PostgresOptions;

/// More than a server usually takes in all.
const CONNECTIONS: usize = 1_000;
/// Waiting longer is not patience but a queue that nobody sees.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How a journal works.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// Where it lives, and how it is reached. What concerns delivered rows has no meaning here; with
    /// the doorbell off nothing of a session is used, as it must be behind a transaction pooler.
    pub server: PostgresOptions,
    /// Connections for appends, decisions and reads of the journal's own; further ones wait. Each
    /// tail has one besides.
    pub connections: usize,
    /// How long an append or a decision waits for others that exclude it before it is busy.
    pub patience: Duration,
}

impl Default for JournalOptions {
    /// As an outbox; 8 connections; 5 s of patience.
    fn default() -> Self {
        Self {
            server: PostgresOptions::default(),
            connections: 8,
            patience: Duration::from_secs(5),
        }
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
        if self.patience < Duration::from_millis(1) || self.patience > PATIENCE {
            return Err(misconfigured(format!(
                "patience is {:?}; it lies between 1 ms and {PATIENCE:?}",
                self.patience
            )));
        }
        Ok(())
    }

    /// In milliseconds, as the server counts it.
    pub(super) fn patience(&self) -> i32 {
        i32::try_from(self.patience.as_millis()).unwrap_or(i32::MAX)
    }
}
