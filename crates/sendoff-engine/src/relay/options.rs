use std::time::Duration;

use sendoff_core::{Unroutable, limits};

use crate::options::{
    HANDLER_TIMEOUT, MIB, MOST_BYTES, OptionsError, START_WITHIN, check_counts, check_owner,
    check_store_timeout, check_times, statement_limit,
};

/// How a batch keeps its rows to itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    pub window: Option<Duration>,
    /// Leave rows younger than this to others. Zero.
    pub skip_recent: Duration,

    /// How long a held row is held; extended while it waits or runs. 30 s.
    pub hold: Duration,
    /// How long a handler may run for one event; a run that takes longer is a failed attempt. 5 minutes.
    /// None lets handlers run for ever: one that hangs has its worker until the process ends.
    pub handler_timeout: Option<Duration>,
    /// How long an event may wait in its batch before it is released to others: held ones while the
    /// handler before them still runs, locked ones when it ends. 30 s.
    pub start_within: Duration,
    /// What to do with an event nobody listens for. Dead at once.
    pub unroutable: Unroutable,

    /// The delay after a first failure, before jitter. 200 ms.
    pub retry_base: Duration,
    /// The longest delay after a failure, before jitter. 60 s.
    pub retry_max: Duration,
    /// Attempts before an event is dead. 10.
    pub max_attempts: u32,

    /// How long an idle worker waits before it looks again. 1 s.
    pub poll_interval: Duration,
    /// The least time between two counts of what is pending, which cost as much as there is. Off.
    pub pending_interval: Option<Duration>,
    /// How long a statement of ours may take before it counts as lost; at most half of
    /// [`hold`](Self::hold), so that one lost statement lets no hold run out. That half by default,
    /// but not more than 5 s.
    pub store_timeout: Option<Duration>,
    /// How long a stop lets a running handler finish. 5 s.
    pub drain_timeout: Duration,

    /// The node's name in `locked_by`; generated when not given. Each start adds its own suffix.
    pub owner: Option<String>,
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
            hold: Duration::from_secs(30),
            handler_timeout: Some(HANDLER_TIMEOUT),
            start_within: START_WITHIN,
            unroutable: Unroutable::Dead,
            retry_base: Duration::from_millis(200),
            retry_max: Duration::from_secs(60),
            max_attempts: 10,
            poll_interval: Duration::from_secs(1),
            pending_interval: None,
            store_timeout: None,
            drain_timeout: Duration::from_secs(5),
            owner: None,
        }
    }
}

impl RelayOptions {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        check_counts(&[
            ("batch", self.batch, limits::BATCH_ROWS),
            ("batch_bytes", self.batch_bytes, MOST_BYTES),
            ("workers", self.workers, crate::options::MOST),
            ("max_attempts", usize::try_from(self.max_attempts).unwrap_or(0), crate::options::MOST),
        ])?;
        let (short, long) = (Duration::from_millis(1), limits::DELAY);
        check_times(&[
            ("window", self.window.unwrap_or(short), short, long),
            ("skip_recent", self.skip_recent, Duration::ZERO, long),
            ("hold", self.hold, crate::options::SHORTEST_HOLD, limits::HOLD),
            ("handler_timeout", self.handler_timeout.unwrap_or(short), short, long),
            ("start_within", self.start_within, short, long),
            ("retry_base", self.retry_base, Duration::ZERO, long),
            ("retry_max", self.retry_max, Duration::ZERO, long),
            ("poll_interval", self.poll_interval, short, long),
            ("pending_interval", self.pending_interval.unwrap_or(short), short, long),
            ("drain_timeout", self.drain_timeout, Duration::ZERO, long),
        ])?;
        check_store_timeout(self.store_timeout, self.hold)?;
        check_owner(self.owner.as_deref())
    }

    /// How long a statement of ours may take: [`store_timeout`](Self::store_timeout), or its default.
    pub fn statement_limit(&self) -> Duration {
        statement_limit(self.store_timeout, self.hold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds C2, L3.
    #[test]
    fn the_defaults_are_those_of_the_rules() {
        let options = RelayOptions::default();
        assert_eq!((options.batch, options.max_attempts), (50, 10));
        assert_eq!(options.handler_timeout, Some(Duration::from_secs(300)));
        assert_eq!(
            (options.start_within, options.pending_interval),
            (Duration::from_secs(30), None)
        );
        assert_eq!((options.mode, options.window), (ClaimMode::Held, None));
        assert!(options.retry_base > Duration::ZERO, "a retry is never immediate");
        assert_eq!(options.validate(), Ok(()));
    }

    /// Holds C2.
    #[test]
    fn a_parameter_out_of_range_is_named_with_its_limit() {
        let options = RelayOptions { batch: 1_001, ..RelayOptions::default() };
        let error = options.validate().unwrap_err();
        assert_eq!(error.to_string(), "batch is 1001; it must be from 1 to 1000");
        let options = RelayOptions { hold: Duration::from_millis(1), ..RelayOptions::default() };
        assert!(matches!(options.validate(), Err(OptionsError::Time { field: "hold", .. })));
    }

    #[test]
    fn a_statement_may_take_half_of_a_hold_and_no_more() {
        let options = RelayOptions { hold: Duration::from_secs(2), ..RelayOptions::default() };
        assert_eq!(options.statement_limit(), Duration::from_secs(1));
        let options = RelayOptions { store_timeout: Some(Duration::from_secs(3)), ..options };
        let error = options.validate().unwrap_err();
        assert_eq!(error.to_string(), "store_timeout is 3s; it must be from 1ms to 1s");
    }
}
