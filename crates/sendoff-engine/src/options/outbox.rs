//! Every parameter of an outbox.

use std::time::Duration;

use sendoff_core::{Validation, limits};

use super::check::{
    LONGEST, MIB, MOST, MOST_BYTES, OptionsError, SHORTEST, SHORTEST_HOLD, check_counts,
    check_times,
};
use super::{FairOptions, HandlerOptions, NodeOptions, RetryOptions};

/// Every parameter of an outbox, with its default. A plain value: fill in what differs.
///
/// ```
/// use sendoff_engine::{OutboxOptions, RetryOptions};
///
/// let options = OutboxOptions {
///     workers: 16,
///     retry: RetryOptions { max_attempts: 3, ..RetryOptions::default() },
///     ..OutboxOptions::default()
/// };
/// assert!(options.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct OutboxOptions {
    /// The most deliveries that run at once. While several handlers are registered, one of them has half
    /// of these at most, at least one, unless it has [a limit of its own](crate::at_most), and half of
    /// each lane. 4.
    pub workers: usize,
    /// Events that may wait in memory right after their commit. 1,000.
    pub hot_capacity: usize,
    /// Bytes of payloads and headers that may wait right after their commit, and as many again
    /// that wait for the proof of one. One event of each handler always fits. 64 MiB.
    pub hot_bytes: usize,
    /// Events that may wait in memory after they were claimed. 1,000.
    pub cold_capacity: usize,
    /// Bytes of payloads and headers that may wait after they were claimed; no more are asked for at
    /// once. One event of each handler always fits. 64 MiB.
    pub cold_bytes: usize,

    /// Whether this process claims rows at all. Without it only the hot lane delivers. Yes.
    pub poller_enabled: bool,
    /// How long an idle poller waits before it looks again. 5 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub poll_interval: Duration,
    /// Rows in one claim. 200.
    pub poll_batch: usize,
    /// Leave rows younger than this to others. Holds make it unnecessary, so it is zero.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub skip_recent: Duration,
    /// Shares claims among tenants, so that one with a flood of events keeps no other waiting. Needs an index
    /// that [migrations make when asked to](crate::store::ClaimStore::check_fair). Events with an ordering key
    /// are not shared, nor what is delivered from memory. None.
    pub fair: Option<FairOptions>,

    /// How often an event is tried, and how long the pauses are.
    pub retry: RetryOptions,
    /// How long a handler may take, and how long an event waits for it.
    pub handler: HandlerOptions,
    /// After this long in work an event is no longer extended, so that others may take it, and not taken
    /// in here again while its run goes on: for handlers that hang without a timeout. None by default.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
    pub in_flight_ttl: Option<Duration>,

    /// How long a row is born held for the hot lane; extended while it waits or runs. 10 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub hot_grace: Duration,
    /// How long a claimed row is held; extended while it waits or runs. 30 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub hold: Duration,
    /// How often delivered rows past their retention are deleted. 1 h.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub purge_interval: Duration,

    /// The node's name, its patience with the database, and its time to close.
    pub node: NodeOptions,
    /// The checks a write makes. All.
    pub validation: Validation,
}

impl Default for OutboxOptions {
    fn default() -> Self {
        Self {
            workers: 4,
            hot_capacity: 1_000,
            hot_bytes: 64 * MIB,
            cold_capacity: 1_000,
            cold_bytes: 64 * MIB,
            poller_enabled: true,
            poll_interval: Duration::from_secs(5),
            poll_batch: 200,
            skip_recent: Duration::ZERO,
            fair: None,
            retry: RetryOptions::default(),
            handler: HandlerOptions::default(),
            in_flight_ttl: None,
            hot_grace: Duration::from_secs(10),
            hold: Duration::from_secs(30),
            purge_interval: Duration::from_secs(60 * 60),
            node: NodeOptions::default(),
            validation: Validation::default(),
        }
    }
}

impl OutboxOptions {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        check_counts(&[
            ("workers", self.workers, MOST),
            ("hot_capacity", self.hot_capacity, MOST),
            ("hot_bytes", self.hot_bytes, MOST_BYTES),
            ("cold_capacity", self.cold_capacity, MOST),
            ("cold_bytes", self.cold_bytes, MOST_BYTES),
            ("poll_batch", self.poll_batch, limits::BATCH_ROWS),
        ])?;
        check_times(&[
            ("poll_interval", self.poll_interval, SHORTEST, LONGEST),
            ("skip_recent", self.skip_recent, Duration::ZERO, LONGEST),
            ("in_flight_ttl", self.in_flight_ttl.unwrap_or(SHORTEST), SHORTEST, LONGEST),
            ("hot_grace", self.hot_grace, SHORTEST_HOLD, limits::HOLD),
            ("hold", self.hold, SHORTEST_HOLD, limits::HOLD),
            ("purge_interval", self.purge_interval, SHORTEST, LONGEST),
        ])?;
        if let Some(fair) = &self.fair {
            fair.check().map_err(|error| error.within("fair"))?;
        }
        self.retry.check().map_err(|error| error.within("retry"))?;
        self.handler.check().map_err(|error| error.within("handler"))?;
        self.node.check(self.shortest_hold()).map_err(|error| error.within("node"))
    }

    /// How long a statement of ours may take: [`store_timeout`](NodeOptions::store_timeout), or its
    /// default, half of the shorter of [`hold`](Self::hold) and [`hot_grace`](Self::hot_grace).
    pub fn statement_limit(&self) -> Duration {
        self.node.statement_limit(self.shortest_hold())
    }

    /// The shortest time for which a row of this node is held.
    pub(crate) fn shortest_hold(&self) -> Duration {
        self.hold.min(self.hot_grace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds C1, P1, P4, D1, D8.
    #[test]
    fn the_defaults_are_those_of_the_rules() {
        let options = OutboxOptions::default();
        assert_eq!((options.workers, options.retry.max_attempts), (4, 10));
        assert_eq!((options.hot_capacity, options.cold_capacity), (1_000, 1_000));
        assert_eq!((options.hot_bytes, options.cold_bytes), (64 * MIB, 64 * MIB));
        assert_eq!((options.poll_interval, options.poll_batch), (Duration::from_secs(5), 200));
        assert_eq!(options.retry.base, Duration::from_millis(200));
        assert_eq!(options.retry.max, Duration::from_secs(60));
        assert_eq!(options.node.drain_timeout, Duration::from_secs(5));
        assert_eq!(options.hold, Duration::from_secs(30));
        assert_eq!(options.skip_recent, Duration::ZERO);
        assert_eq!(options.handler.timeout, Some(Duration::from_secs(300)));
        assert_eq!(options.handler.start_within, Duration::from_secs(30));
        assert!(options.poller_enabled && options.node.name.is_none());
        assert_eq!(options.validate(), Ok(()));
    }

    /// Holds C1, D1.
    #[test]
    fn a_parameter_out_of_range_is_named_with_its_limit() {
        let options = OutboxOptions { hot_capacity: 0, ..OutboxOptions::default() };
        let error = options.validate().unwrap_err();
        assert_eq!(error.to_string(), "hot_capacity is 0; it must be from 1 to 1000000");

        let options = OutboxOptions { cold_capacity: usize::MAX, ..OutboxOptions::default() };
        assert!(matches!(
            options.validate(),
            Err(OptionsError::Count { path, .. }) if path == "cold_capacity"
        ));

        let options = OutboxOptions { hold: Duration::from_secs(601), ..OutboxOptions::default() };
        assert_eq!(options.validate().unwrap_err().path(), "hold");

        let retry = RetryOptions { max_attempts: 0, ..RetryOptions::default() };
        let error = OutboxOptions { retry, ..OutboxOptions::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "retry.max_attempts is 0; it must be from 1 to 1000000");

        let (day, forever) = (Duration::from_secs(24 * 60 * 60), Duration::MAX);
        let handler = HandlerOptions { timeout: Some(forever), ..HandlerOptions::default() };
        let error = OutboxOptions { handler, ..OutboxOptions::default() }.validate().unwrap_err();
        assert_eq!(error.path(), "handler.timeout");
        assert!(matches!(error, OptionsError::Time { most, .. } if most > day));

        let named = |chars| {
            let node = NodeOptions { name: Some("n".repeat(chars)), ..NodeOptions::default() };
            OutboxOptions { node, ..OutboxOptions::default() }.validate()
        };
        let most = limits::OWNER_CHARS - crate::owner::SUFFIX_CHARS;
        assert_eq!(named(most), Ok(()));
        let error = named(most + 1).unwrap_err().to_string();
        assert_eq!(error, format!("node.name has {} characters; it may have {most}", most + 1));
    }

    #[test]
    fn a_statement_may_take_half_of_the_shortest_hold_and_no_more() {
        let seconds = Duration::from_secs;
        assert_eq!(OutboxOptions::default().statement_limit(), seconds(5));
        let short = OutboxOptions { hold: seconds(4), ..OutboxOptions::default() };
        assert_eq!((short.statement_limit(), short.validate()), (seconds(2), Ok(())));
        let long = OutboxOptions { hot_grace: seconds(60), hold: seconds(60), ..short };
        assert_eq!(long.statement_limit(), seconds(5), "however long the holds are");

        let asked = |limit| {
            let node = NodeOptions { store_timeout: Some(limit), ..NodeOptions::default() };
            OutboxOptions { node, ..long.clone() }
        };
        assert_eq!(asked(seconds(30)).statement_limit(), seconds(30));
        assert_eq!(asked(seconds(30)).validate(), Ok(()));
        let error = asked(seconds(31)).validate().unwrap_err();
        assert_eq!(error.to_string(), "node.store_timeout is 31s; it must be from 1ms to 30s");
    }
}
