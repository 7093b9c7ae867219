use std::time::Duration;

use sendoff_core::{Unroutable, Validation, limits};

/// Every parameter of an outbox, with its default. A plain value: fill in what differs.
///
/// ```
/// use sendoff_engine::OutboxOptions;
///
/// let options = OutboxOptions { workers: 16, ..OutboxOptions::default() };
/// assert!(options.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxOptions {
    /// The most deliveries that run at once. 4.
    pub workers: usize,
    /// Events that may wait in memory right after their commit. 1,000.
    pub hot_capacity: usize,
    /// Bytes of payloads and headers that may wait right after their commit, and as many again
    /// that wait for the proof of one. One event always fits. 64 MiB.
    pub hot_bytes: usize,
    /// Events that may wait in memory after they were claimed. 1,000.
    pub cold_capacity: usize,
    /// Bytes of payloads and headers that may wait after they were claimed; no more are asked for at
    /// once. One event always fits. 64 MiB.
    pub cold_bytes: usize,

    /// Whether this process claims rows at all. Without it only the hot lane delivers. Yes.
    pub poller_enabled: bool,
    /// How long an idle poller waits before it looks again. 5 s.
    pub poll_interval: Duration,
    /// Rows in one claim. 200.
    pub poll_batch: usize,
    /// Leave rows younger than this to others. Holds make it unnecessary, so it is zero.
    pub skip_recent: Duration,

    /// The delay after a first failure, before jitter. 200 ms.
    pub retry_base: Duration,
    /// The longest delay after a failure, before jitter. 60 s.
    pub retry_max: Duration,
    /// Attempts before an event is dead. 10.
    pub max_attempts: u32,

    /// How long a handler may run; a run that takes longer is a failed attempt. 5 minutes. None lets
    /// handlers run for ever: one that hangs has its worker until the process ends.
    pub handler_timeout: Option<Duration>,
    /// How long an event may wait in a lane before it is released to others. Once every worker has been
    /// in one handler for as long as this, what waits is released at once, and nothing is claimed or
    /// taken from commits until a worker is free. 30 s.
    pub start_within: Duration,
    /// After this long in work an event is no longer extended, so that others may take it, and not taken
    /// in here again while its run goes on: for handlers that hang without a timeout. None by default.
    pub in_flight_ttl: Option<Duration>,
    /// What to do with an event nobody listens for. Dead at once.
    pub unroutable: Unroutable,

    /// How long a row is born held for the hot lane; extended while it waits or runs. 10 s.
    pub hot_grace: Duration,
    /// How long a claimed row is held; extended while it waits or runs. 30 s.
    pub hold: Duration,
    /// How long a statement of ours may take before it counts as lost; at most half of the shorter
    /// of [`hold`](Self::hold) and [`hot_grace`](Self::hot_grace), so that one lost statement lets
    /// no hold run out. That half by default, but not more than 5 s.
    pub store_timeout: Option<Duration>,
    /// How long closing lets the lanes drain. 5 s.
    pub drain_timeout: Duration,
    /// How often delivered rows past their retention are deleted. 1 h.
    pub purge_interval: Duration,

    /// The node's name in `locked_by`; generated when not given. Each start adds its own suffix.
    pub owner: Option<String>,
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
            retry_base: Duration::from_millis(200),
            retry_max: Duration::from_secs(60),
            max_attempts: 10,
            handler_timeout: Some(HANDLER_TIMEOUT),
            start_within: START_WITHIN,
            in_flight_ttl: None,
            unroutable: Unroutable::Dead,
            hot_grace: Duration::from_secs(10),
            hold: Duration::from_secs(30),
            store_timeout: None,
            drain_timeout: Duration::from_secs(5),
            purge_interval: Duration::from_secs(60 * 60),
            owner: None,
            validation: Validation::default(),
        }
    }
}

/// How long a handler may run unless somebody says otherwise. Where a row's lock simply times out, five
/// minutes are the custom, so that a handler which needs longer was never safe from being run twice; and
/// a hang has to end some time, or each costs a worker for good.
pub(crate) const HANDLER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long an event may wait for a worker unless somebody says otherwise: about what it takes others to
/// notice a node that died, so that one which merely hangs is not worse.
pub(crate) const START_WITHIN: Duration = Duration::from_secs(30);

pub(crate) const MIB: usize = 1024 * 1024;
/// Bytes in memory beyond this are a mistake of units: 1 GiB.
pub(crate) const MOST_BYTES: usize = 1024 * MIB;
/// Lanes and workers beyond this are a mistake of units, not a wish.
pub(crate) const MOST: usize = 1_000_000;
/// A hold shorter than this cannot be extended in time by a busy database.
pub(crate) const SHORTEST_HOLD: Duration = Duration::from_millis(100);

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
            ("max_attempts", usize::try_from(self.max_attempts).unwrap_or(MOST), MOST),
        ])?;
        let (short, long) = (Duration::from_millis(1), limits::DELAY);
        check_times(&[
            ("poll_interval", self.poll_interval, short, long),
            ("retry_base", self.retry_base, Duration::ZERO, long),
            ("retry_max", self.retry_max, Duration::ZERO, long),
            ("skip_recent", self.skip_recent, Duration::ZERO, long),
            ("handler_timeout", self.handler_timeout.unwrap_or(short), short, long),
            ("start_within", self.start_within, SHORTEST_HOLD, long),
            ("in_flight_ttl", self.in_flight_ttl.unwrap_or(short), short, long),
            ("hot_grace", self.hot_grace, SHORTEST_HOLD, limits::HOLD),
            ("hold", self.hold, SHORTEST_HOLD, limits::HOLD),
            ("drain_timeout", self.drain_timeout, Duration::ZERO, long),
            ("purge_interval", self.purge_interval, short, long),
        ])?;
        check_store_timeout(self.store_timeout, self.shortest_hold())?;
        check_owner(self.owner.as_deref())
    }

    /// How long a statement of ours may take: [`store_timeout`](Self::store_timeout), or its default.
    pub fn statement_limit(&self) -> Duration {
        statement_limit(self.store_timeout, self.shortest_hold())
    }

    /// The shortest time for which a row of this node is held.
    pub(crate) fn shortest_hold(&self) -> Duration {
        self.hold.min(self.hot_grace)
    }
}

/// Nobody should wait longer than this for one statement, however long holds are.
const LONGEST_STATEMENT: Duration = Duration::from_secs(5);

/// How long a statement may take: what was wished, or half of the shortest hold, so that there is
/// time for a second one before anything that is held runs out.
pub(crate) fn statement_limit(wish: Option<Duration>, shortest_hold: Duration) -> Duration {
    wish.unwrap_or_else(|| (shortest_hold / 2).min(LONGEST_STATEMENT))
}

/// Whether a wish for [`statement_limit`] leaves time for a second statement.
pub(crate) fn check_store_timeout(
    wish: Option<Duration>,
    shortest_hold: Duration,
) -> Result<(), OptionsError> {
    let limit = statement_limit(wish, shortest_hold);
    check_times(&[("store_timeout", limit, Duration::from_millis(1), shortest_hold / 2)])
}

/// Each field, its value and the most it may be; the least is 1.
pub(crate) fn check_counts(counts: &[(&'static str, usize, usize)]) -> Result<(), OptionsError> {
    for &(field, value, most) in counts {
        if value == 0 || value > most {
            return Err(OptionsError::Count { field, value, most });
        }
    }
    Ok(())
}

/// Each field, its value, and the least and the most it may be.
pub(crate) fn check_times(
    times: &[(&'static str, Duration, Duration, Duration)],
) -> Result<(), OptionsError> {
    for &(field, value, least, most) in times {
        if value < least || value > most {
            return Err(OptionsError::Time { field, value, least, most });
        }
    }
    Ok(())
}

pub(crate) fn check_owner(owner: Option<&str>) -> Result<(), OptionsError> {
    let chars = owner.unwrap_or_default().chars().count();
    let most = limits::OWNER_CHARS - crate::owner::SUFFIX_CHARS;
    if chars > most {
        return Err(OptionsError::Count { field: "owner (characters)", value: chars, most });
    }
    Ok(())
}

/// A parameter out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number is out of range.
    #[error("{field} is {value}; it must be from 1 to {most}")]
    Count {
        /// The field.
        field: &'static str,
        /// What was given.
        value: usize,
        /// The most allowed.
        most: usize,
    },
    /// A duration is out of range.
    #[error("{field} is {value:?}; it must be from {least:?} to {most:?}")]
    Time {
        /// The field.
        field: &'static str,
        /// What was given.
        value: Duration,
        /// The least allowed.
        least: Duration,
        /// The most allowed.
        most: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds C1, P1, P4, D1, D8.
    #[test]
    fn the_defaults_are_those_of_the_rules() {
        let options = OutboxOptions::default();
        assert_eq!((options.workers, options.max_attempts), (4, 10));
        assert_eq!((options.hot_capacity, options.cold_capacity), (1_000, 1_000));
        assert_eq!((options.hot_bytes, options.cold_bytes), (64 * MIB, 64 * MIB));
        assert_eq!((options.poll_interval, options.poll_batch), (Duration::from_secs(5), 200));
        assert_eq!(options.retry_base, Duration::from_millis(200));
        assert_eq!(options.retry_max, Duration::from_secs(60));
        assert_eq!(options.drain_timeout, Duration::from_secs(5));
        assert_eq!(options.hold, Duration::from_secs(30));
        assert_eq!(options.skip_recent, Duration::ZERO);
        assert_eq!(options.handler_timeout, Some(Duration::from_secs(300)));
        assert_eq!(options.start_within, Duration::from_secs(30));
        assert!(options.poller_enabled && options.owner.is_none());
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
            Err(OptionsError::Count { field: "cold_capacity", .. })
        ));

        let options = OutboxOptions { hold: Duration::from_secs(601), ..OutboxOptions::default() };
        assert!(matches!(options.validate(), Err(OptionsError::Time { field: "hold", .. })));
    }

    #[test]
    fn a_statement_may_take_half_of_the_shortest_hold_and_no_more() {
        let seconds = Duration::from_secs;
        assert_eq!(OutboxOptions::default().statement_limit(), seconds(5));
        let short = OutboxOptions { hold: seconds(4), ..OutboxOptions::default() };
        assert_eq!((short.statement_limit(), short.validate()), (seconds(2), Ok(())));
        let long = OutboxOptions { hot_grace: seconds(60), hold: seconds(60), ..short };
        assert_eq!(long.statement_limit(), seconds(5), "however long the holds are");

        let asked = |limit| OutboxOptions { store_timeout: Some(limit), ..long.clone() };
        assert_eq!(asked(seconds(30)).statement_limit(), seconds(30));
        assert_eq!(asked(seconds(30)).validate(), Ok(()));
        let error = asked(seconds(31)).validate().unwrap_err();
        assert_eq!(error.to_string(), "store_timeout is 31s; it must be from 1ms to 30s");
    }
}
