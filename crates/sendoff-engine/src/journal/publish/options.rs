//! Options of a publishing node and of each of its pairs.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{IdleBackoff, Leadership, Poison};
use sendoff_core::{Exponential, Jitter, RetryPolicy, limits};

use crate::appetite::{Appetite, Portion};
use crate::options::{
    CircuitOptions, LONGEST, MIB, MOST, MOST_BYTES, NodeOptions, OptionsError, RetryOptions,
    SHORTEST, check_counts, check_times,
};
use crate::sink::Pauses;

/// How a node publishes. A plain value: fill in what differs.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct PublishOptions {
    /// The node's name, its patience with the database, and its time to close.
    pub node: NodeOptions,
    /// How pairs are shared between nodes.
    pub leadership: Leadership,
    /// How often the node says that it is alive, and looks at what stands in the table of cursors.
    /// Who has missed two of them and whose session is gone may be replaced.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub renew: Duration,
    /// After what silence a node is dead for the others, whatever its session does.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub lease: Duration,
    /// Rows of the journal's end that are kept in memory for all pairs.
    pub window_rows: usize,
    /// Bytes of their payloads and headers. As many again are kept for pairs that lag.
    pub window_bytes: usize,
    /// How often to look while somebody's append is waited for.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub gap_interval: Duration,
}

impl Default for PublishOptions {
    /// A leader for each pair; alive every 500 ms, dead after 10 s; a window of 10,000 rows or
    /// 48 MiB, so that a node stays below 200 MB whatever lags.
    fn default() -> Self {
        Self {
            node: NodeOptions::default(),
            leadership: Leadership::default(),
            renew: Duration::from_millis(500),
            lease: Duration::from_secs(10),
            window_rows: 10_000,
            window_bytes: 48 * MIB,
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

    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        check_counts(&[
            ("window_rows", self.window_rows, MOST),
            ("window_bytes", self.window_bytes, MOST_BYTES),
        ])?;
        check_times(&[
            ("renew", self.renew, SHORTEST, limits::HOLD / LEASE_RENEWALS),
            // One late answer is no death, and nobody should wait for ever for a dead node.
            ("lease", self.lease, self.renew * LEASE_RENEWALS, limits::HOLD),
            ("gap_interval", self.gap_interval, Duration::ZERO, LONGEST),
        ])?;
        self.node.check(self.lease).map_err(|error| error.within("node"))
    }

    /// How long a statement may take: [`store_timeout`](NodeOptions::store_timeout), or its default, half
    /// of [`lease`](Self::lease).
    pub fn statement_limit(&self) -> Duration {
        self.node.statement_limit(self.lease)
    }
}

/// Renewals that fit into a lease at least.
const LEASE_RENEWALS: u32 = 4;

/// Whether a publisher is given batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Mode {
    /// Up to `batch` facts at once.
    #[default]
    Batch,
    /// One at a time.
    Single,
}

/// Where a pair begins that has no cursor yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Start {
    /// With the first fact there is.
    #[default]
    Beginning,
    /// With what is appended from now on.
    Now,
    /// After this position.
    After(Position),
}

/// How one pair is worked. A plain value: fill in what differs.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct PairOptions {
    /// How often it looks for something new.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub interval: Duration,
    /// Whether it also gets what somebody else's look brought, without waiting for its own.
    pub eager: bool,
    /// How it slows down while there is nothing.
    pub idle: IdleBackoff,
    /// Facts of a batch at most.
    pub batch: usize,
    /// Whether its publisher is given batches.
    pub mode: Mode,
    /// How long a batch may take, unless its publisher has [a limit of its own](crate::deadline). One that takes
    /// longer has failed.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub publish_timeout: Duration,
    /// How long the pauses after a failure are, up to
    /// [`unavailable.longest_pause`](UnavailableOptions::longest_pause); and, where poison is
    /// [parked](Poison::Park), how often a fact must have failed by itself before later ones are tried.
    pub retry: RetryOptions,
    /// The pauses, in place of those of [`retry`](Self::retry). Code, and in no file.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub retry_policy: Option<Arc<dyn RetryPolicy>>,
    /// How a target that is unavailable is tried again.
    pub unavailable: UnavailableOptions,
    /// What becomes of a fact that cannot be published. The pair waits at it: exact order.
    pub poison: Poison,
    /// How facts are parked and tried again.
    pub parked: ParkedOptions,
    /// The pauses, in place of those of [`parked`](Self::parked). Code, and in no file.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub parked_policy: Option<Arc<dyn RetryPolicy>>,
    /// Where it begins that has no cursor yet.
    pub start: Start,
    /// Whether its publisher settles facts in transactions of its own, by
    /// [`Journal::settle_in`](crate::journal::Journal::settle_in). Each of its runs is then one call of it, and begins
    /// when the cursor of the one before is stored; and later facts are never tried before one that fails, so
    /// that with [`Poison::Park`] only what it calls dead is parked.
    pub settles_in: bool,
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
            retry: RetryOptions::default(),
            retry_policy: None,
            unavailable: UnavailableOptions::default(),
            poison: Poison::default(),
            parked: ParkedOptions::default(),
            parked_policy: None,
            start: Start::default(),
            settles_in: false,
        }
    }
}

impl PairOptions {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        check_counts(&[("batch", self.batch, limits::BATCH_ROWS)])?;
        check_times(&[
            ("interval", self.interval, SHORTEST, LONGEST),
            ("publish_timeout", self.publish_timeout, SHORTEST, LONGEST),
        ])?;
        self.retry.check().map_err(|error| error.within("retry"))?;
        self.unavailable.check().map_err(|error| error.within("unavailable"))?;
        self.parked.check().map_err(|error| error.within("parked"))
    }

    /// The pauses after failures.
    pub(super) fn retry_policy(&self) -> &dyn RetryPolicy {
        self.retry_policy.as_deref().unwrap_or(&self.retry)
    }

    /// The pauses before what was parked is tried again.
    pub(super) fn parked_policy(&self) -> &dyn RetryPolicy {
        self.parked_policy.as_deref().unwrap_or(&self.parked)
    }

    /// How many facts a run has.
    pub(super) fn run_of(&self) -> usize {
        match self.mode {
            Mode::Batch => self.batch,
            Mode::Single => 1,
        }
    }
}

/// How a target that is unavailable is tried again. A pair notices within `longest_pause` that an outage
/// is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct UnavailableOptions {
    /// The pause where a target says that it is unavailable. 1 s; twice as long after each try that fails.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub first_pause: Duration,
    /// The longest pause after any failure, whatever the retry policy says, unless the target itself asked
    /// for a longer one. 15 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub longest_pause: Duration,
}

impl Default for UnavailableOptions {
    /// As a handler's circuit.
    fn default() -> Self {
        let CircuitOptions { first_pause, longest_pause, .. } = CircuitOptions::default();
        Self { first_pause, longest_pause }
    }
}

impl UnavailableOptions {
    pub(super) fn pauses(&self) -> Pauses {
        Pauses { first: self.first_pause, longest: self.longest_pause }
    }

    fn check(&self) -> Result<(), OptionsError> {
        check_times(&[
            ("first_pause", self.first_pause, SHORTEST, LONGEST),
            ("longest_pause", self.longest_pause, self.first_pause, LONGEST),
        ])
    }
}

/// How facts are parked, and tried again: after `base`, then twice as long after each further failure, up
/// to `max`; each pause half as long or half as long again, by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct ParkedOptions {
    /// Facts that may be parked one after the other, without one published between. More than that
    /// is a target that refuses everything, and the pair waits. 100.
    pub in_a_row: u32,
    /// The pause before a fact that was parked is first tried again, before jitter. 30 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub base: Duration,
    /// The longest pause, before jitter. 1 h.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub max: Duration,
    /// How often it is tried by itself; then it waits for somebody to say so. 20; 0 is never.
    pub max_attempts: u32,
}

impl Default for ParkedOptions {
    fn default() -> Self {
        Self {
            in_a_row: 100,
            base: Duration::from_secs(30),
            max: Duration::from_secs(60 * 60),
            max_attempts: 20,
        }
    }
}

impl ParkedOptions {
    fn check(&self) -> Result<(), OptionsError> {
        let in_a_row = usize::try_from(self.in_a_row).unwrap_or(usize::MAX);
        check_counts(&[("in_a_row", in_a_row, MOST)])?;
        check_times(&[
            ("base", self.base, Duration::ZERO, LONGEST),
            ("max", self.max, Duration::ZERO, LONGEST),
        ])
    }
}

impl RetryPolicy for ParkedOptions {
    fn delay(&self, attempt: u32, jitter: Jitter) -> Duration {
        Exponential { base: self.base, max: self.max }.delay(attempt, jitter)
    }
}
