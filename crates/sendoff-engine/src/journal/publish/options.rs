use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{IdleBackoff, Leadership, Poison};
use sendoff_core::{Exponential, RetryPolicy, limits};

use super::service::PublishOptionsError;
use crate::appetite::{Appetite, Portion};
use crate::options::{check_store_timeout, statement_limit};

/// How a node publishes.
#[derive(Debug, Clone)]
pub struct PublishOptions {
    /// The node's name, for people; an incarnation is added to it.
    pub name: Option<String>,
    /// How pairs are shared between nodes.
    pub leadership: Leadership,
    /// How often the node says that it is alive, and looks at what stands in the table of cursors.
    /// Who has missed two of them and whose session is gone may be replaced.
    pub renew: Duration,
    /// After what silence a node is dead for the others, whatever its session does.
    pub lease: Duration,
    /// Rows of the journal's end that are kept in memory for all pairs.
    pub window_rows: usize,
    /// Bytes of their payloads and headers. As many again are kept for pairs that lag.
    pub window_bytes: usize,
    /// How long a statement may take before it counts as lost; at most half of
    /// [`lease`](Self::lease), so that one lost statement ends no leadership. That half by default,
    /// but not more than 5 s.
    pub store_timeout: Option<Duration>,
    /// How long closing waits for what is being published.
    pub drain_timeout: Duration,
    /// How often to look while somebody's append is waited for.
    pub gap_interval: Duration,
}

impl Default for PublishOptions {
    /// A leader for each pair; alive every 500 ms, dead after 10 s; a window of 10,000 rows or
    /// 64 MiB.
    fn default() -> Self {
        Self {
            name: None,
            leadership: Leadership::default(),
            renew: Duration::from_millis(500),
            lease: Duration::from_secs(10),
            window_rows: 10_000,
            window_bytes: 64 * 1024 * 1024,
            store_timeout: None,
            drain_timeout: Duration::from_secs(5),
            gap_interval: Duration::from_millis(10),
        }
    }
}

impl PublishOptions {
    /// How much of the journal is read at once: little enough that the window is filled in several
    /// readings.
    pub(super) fn appetite(&self) -> Appetite {
        Appetite::up_to(Portion {
            rows: limits::BATCH_ROWS.min(self.window_rows),
            bytes: limits::READ_BYTES.min(self.window_bytes / 4),
        })
    }

    pub(super) fn check(&self) -> Result<(), PublishOptionsError> {
        let refuse = |field, reason| Err(PublishOptionsError::Option { field, reason });
        if self.renew.is_zero() {
            return refuse("renew", "must be longer than zero");
        }
        if self.lease < self.renew * 4 {
            return refuse(
                "lease",
                "must be at least four times renew: one late answer is no death",
            );
        }
        if self.lease > limits::HOLD {
            return refuse("lease", "is longer than anybody should wait for a dead node");
        }
        if self.window_rows == 0 || self.window_bytes == 0 {
            return refuse("window_rows, window_bytes", "must hold something");
        }
        check_store_timeout(self.store_timeout, self.lease)?;
        if self.name.as_ref().is_some_and(|name| name.chars().count() > limits::OWNER_CHARS - 17) {
            return refuse("name", "is too long");
        }
        Ok(())
    }

    /// How long a statement may take: [`store_timeout`](Self::store_timeout), or its default.
    pub fn statement_limit(&self) -> Duration {
        statement_limit(self.store_timeout, self.lease)
    }
}

/// Whether a publisher is given batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Up to `batch` facts at once.
    #[default]
    Batch,
    /// One at a time.
    Single,
}

/// Where a pair begins that has no cursor yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// With the first fact there is.
    #[default]
    Beginning,
    /// With what is appended from now on.
    Now,
    /// Behind this position.
    After(Position),
}

/// How one pair is worked.
#[derive(Debug, Clone)]
pub struct PairOptions {
    /// How often it looks for something new.
    pub interval: Duration,
    /// Whether it also gets what somebody else's look brought, without waiting for its own.
    pub eager: bool,
    /// How it slows down while there is nothing.
    pub idle: IdleBackoff,
    /// Facts of a batch at most.
    pub batch: usize,
    /// Whether its publisher is given batches.
    pub mode: Mode,
    /// How long a batch may take. One that takes longer has failed.
    pub publish_timeout: Duration,
    /// The pause after a failure.
    pub retry: Arc<dyn RetryPolicy>,
    /// How often a fact may fail by itself before it is suspected to be poison.
    pub max_attempts: u32,
    /// What becomes of poison.
    pub poison: Poison,
    /// Facts that may be set aside one after the other, without one published between. More than that
    /// is a target that refuses everything, and the pair waits.
    pub parked_in_a_row: u32,
    /// The pause before a fact that was set aside is tried again.
    pub parked_retry: Arc<dyn RetryPolicy>,
    /// How often it is tried by itself; then it waits for somebody to say so.
    pub parked_attempts: u32,
    /// Where it begins that has no cursor yet.
    pub start: Start,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            eager: true,
            idle: IdleBackoff::default(),
            batch: 100,
            mode: Mode::default(),
            publish_timeout: Duration::from_secs(30),
            retry: Arc::new(Exponential::default()),
            max_attempts: 10,
            poison: Poison::Park,
            parked_in_a_row: 100,
            parked_retry: Arc::new(Exponential {
                base: Duration::from_secs(30),
                max: Duration::from_secs(60 * 60),
            }),
            parked_attempts: 20,
            start: Start::default(),
        }
    }
}

impl PairOptions {
    pub(super) fn check(&self) -> Result<(), PublishOptionsError> {
        let refuse = |field, reason| Err(PublishOptionsError::Option { field, reason });
        if self.interval.is_zero() {
            return refuse("interval", "must be longer than zero");
        }
        if self.batch == 0 || self.batch > limits::BATCH_ROWS {
            return refuse("batch", "must be between 1 and the limit of rows in one statement");
        }
        if self.publish_timeout.is_zero() {
            return refuse("publish_timeout", "must be longer than zero");
        }
        if self.max_attempts == 0 || self.parked_in_a_row == 0 {
            return refuse("max_attempts, parked_in_a_row", "must be at least 1");
        }
        Ok(())
    }

    /// How many facts a run has.
    pub(super) fn run_of(&self) -> usize {
        match self.mode {
            Mode::Batch => self.batch,
            Mode::Single => 1,
        }
    }
}
