//! Options of relays and consumers.

use std::time::Duration;

use sendoff_core::{Unroutable, limits};

use crate::options::{
    FairOptions, HandlerOptions, LONGEST, MIB, MOST, MOST_BYTES, NodeOptions, OptionsError,
    RetryOptions, SHORTEST, SHORTEST_HOLD, check_counts, check_times,
};

const NOT_LOCKED: &str = "rows that are locked are not shared among tenants: choose the mode `held`, or leave `fair` out";

/// How a batch keeps its rows to itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum ClaimMode {
    /// By a hold on each row, which is extended while handlers run. Handlers may take their time; a
    /// crash leaves the rows to run out, and counts as a lost attempt.
    #[default]
    Held,
    /// By locks of a transaction that stays open for the batch. One write less for each event, and a
    /// crash frees the rows at once, exactly as they were; but handlers run inside the transaction,
    /// so they must be short, and an event that kills its process is never counted out. On SQLite it
    /// keeps every other writer of the file waiting.
    Locked,
}

/// Every parameter of a [`Relay`](super::Relay) and of a [`Consumer`](super::Consumer), with its
/// default. A plain value: fill in what differs.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct RelayOptions {
    /// How rows are kept. By holds.
    pub mode: ClaimMode,
    /// Events in one batch. 50.
    pub batch: usize,
    /// Bytes of payloads and headers in one batch. One event always fits. 16 MiB.
    pub batch_bytes: usize,
    /// Batches in work at once. 4.
    pub workers: usize,
    /// Look at rows created within this time first, so that old partitions are not read. Older rows
    /// are still found: whenever such a look does not fill a batch, and every eighth time. None.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
    pub window: Option<Duration>,
    /// Leave rows younger than this to others. Zero.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub skip_recent: Duration,
    /// Shares claims among tenants, so that one with a flood of events keeps no other waiting. Needs an index
    /// that [migrations make when asked to](crate::store::ClaimStore::check_fair), and mode
    /// [`Held`](ClaimMode::Held). Events with an ordering key are not shared. None.
    pub fair: Option<FairOptions>,

    /// How long a held row is held; extended while it waits or runs. 30 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub hold: Duration,
    /// How long a handler may take, and how long an event waits for it.
    pub handler: HandlerOptions,
    /// How often an event is tried, and how long the pauses are.
    pub retry: RetryOptions,

    /// How long an idle worker waits before it looks again. 1 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub poll_interval: Duration,
    /// The least time between two counts of what is pending, which cost as much as there is. Off.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
    pub pending_interval: Option<Duration>,

    /// The node's name, its patience with the database, and its time to close.
    pub node: NodeOptions,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            mode: ClaimMode::Held,
            batch: 50,
            batch_bytes: 16 * MIB,
            workers: 4,
            window: None,
            skip_recent: Duration::ZERO,
            fair: None,
            hold: Duration::from_secs(30),
            handler: HandlerOptions::default(),
            retry: RetryOptions::default(),
            poll_interval: Duration::from_secs(1),
            pending_interval: None,
            node: NodeOptions::default(),
        }
    }
}

impl RelayOptions {
    /// The defaults of a [`TopicWorker`](super::TopicWorker): nothing is dead by itself. A topic without a
    /// handler counts as a failed attempt, and attempts have no end.
    pub fn for_topics() -> Self {
        let handler = HandlerOptions { unroutable: Unroutable::Retry, ..HandlerOptions::default() };
        let retry = RetryOptions { max_attempts: RetryOptions::ENDLESS, ..RetryOptions::default() };
        Self { handler, retry, ..Self::default() }
    }

    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        check_counts(&[
            ("batch", self.batch, limits::BATCH_ROWS),
            ("batch_bytes", self.batch_bytes, MOST_BYTES),
            ("workers", self.workers, MOST),
        ])?;
        check_times(&[
            ("window", self.window.unwrap_or(SHORTEST), SHORTEST, LONGEST),
            ("skip_recent", self.skip_recent, Duration::ZERO, LONGEST),
            ("hold", self.hold, SHORTEST_HOLD, limits::HOLD),
            ("poll_interval", self.poll_interval, SHORTEST, LONGEST),
            ("pending_interval", self.pending_interval.unwrap_or(SHORTEST), SHORTEST, LONGEST),
        ])?;
        if let Some(fair) = &self.fair {
            fair.check().map_err(|error| error.within("fair"))?;
            if self.mode == ClaimMode::Locked {
                return Err(OptionsError::Conflict { path: "fair".to_owned(), reason: NOT_LOCKED });
            }
        }
        self.handler.check().map_err(|error| error.within("handler"))?;
        self.retry.check().map_err(|error| error.within("retry"))?;
        self.node.check(self.hold).map_err(|error| error.within("node"))
    }

    /// How long a statement of ours may take: [`store_timeout`](NodeOptions::store_timeout), or its
    /// default, half of [`hold`](Self::hold).
    pub fn statement_limit(&self) -> Duration {
        self.node.statement_limit(self.hold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds C2, L3.
    #[test]
    fn the_defaults_are_those_of_the_rules() {
        let options = RelayOptions::default();
        assert_eq!((options.batch, options.retry.max_attempts), (50, 10));
        assert_eq!(options.handler.timeout, Some(Duration::from_secs(300)));
        assert_eq!(
            (options.handler.start_within, options.pending_interval),
            (Duration::from_secs(30), None)
        );
        assert_eq!((options.mode, options.window), (ClaimMode::Held, None));
        assert!(options.retry.base > Duration::ZERO, "a retry is never immediate");
        assert_eq!(options.validate(), Ok(()));
    }

    /// Holds C2.
    #[test]
    fn a_parameter_out_of_range_is_named_with_its_limit() {
        let options = RelayOptions { batch: 1_001, ..RelayOptions::default() };
        let error = options.validate().unwrap_err();
        assert_eq!(error.to_string(), "batch is 1001; it must be from 1 to 1000");
        let options = RelayOptions { hold: Duration::from_millis(1), ..RelayOptions::default() };
        assert_eq!(options.validate().unwrap_err().path(), "hold");
    }

    #[test]
    fn a_statement_may_take_half_of_a_hold_and_no_more() {
        let options = RelayOptions { hold: Duration::from_secs(2), ..RelayOptions::default() };
        assert_eq!(options.statement_limit(), Duration::from_secs(1));
        let node =
            NodeOptions { store_timeout: Some(Duration::from_secs(3)), ..NodeOptions::default() };
        let options = RelayOptions { node, ..options };
        let error = options.validate().unwrap_err();
        assert_eq!(error.to_string(), "node.store_timeout is 3s; it must be from 1ms to 1s");
    }
}
