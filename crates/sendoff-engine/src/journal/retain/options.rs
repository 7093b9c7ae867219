use std::num::NonZeroU64;
use std::time::Duration;

use sendoff_core::journal::retain::Ranges;
use sendoff_core::limits;

use super::store::Fate;
use crate::options::{OptionsError, check_counts, check_times};

/// What of a journal is kept, and how the rest goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainOptions {
    /// How long a fact is kept at least. No bound by default.
    pub keep: Option<Duration>,
    /// How many of the newest positions are kept at least. No bound by default; without either,
    /// everything is kept.
    pub keep_last: Option<u64>,
    /// What becomes of a partition that is over. It is dropped; only partitions can be archived.
    pub fate: Fate,
    /// How a journal in partitions is cut: 1,000,000 positions each, 3 ahead, and 20,000 where rows
    /// of the tail have to move.
    pub ranges: Ranges,
    /// How often to look again, in [`run`](super::JournalMaintainer::run). Often enough to be ahead
    /// of the appends. 1 min.
    pub check_every: Duration,
    /// How long a change of partitions waits for its locks, and appends behind it, before it is left
    /// for the next time. 500 ms.
    pub lock_wait: Duration,
    /// Facts in one transaction, where they are deleted one by one. 1,000.
    pub batch: usize,
    /// How long one such transaction may take. 10 s.
    pub store_timeout: Duration,
}

impl RetainOptions {
    /// How a journal in partitions is cut by default.
    pub const RANGES: Ranges = Ranges {
        size: NonZeroU64::new(1_000_000).expect("it is not zero"),
        ahead: 3,
        most_moved: NonZeroU64::new(20_000).expect("it is not zero"),
    };

    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let whole = |number: NonZeroU64| usize::try_from(number.get()).unwrap_or(usize::MAX);
        check_counts(&[
            ("batch", self.batch, limits::BATCH_ROWS),
            ("size", whole(self.ranges.size), MOST_POSITIONS),
            ("most_moved", whole(self.ranges.most_moved), MOST_MOVED),
            ("ahead", whole(NonZeroU64::MIN.saturating_add(self.ranges.ahead.into())), MOST_AHEAD),
        ])?;
        let (short, long) = (Duration::from_millis(1), limits::DELAY);
        check_times(&[
            ("keep", self.keep.unwrap_or_default(), Duration::ZERO, long),
            ("check_every", self.check_every, short, long),
            ("lock_wait", self.lock_wait, short, limits::HOLD),
            ("store_timeout", self.store_timeout, short, limits::HOLD),
        ])
    }
}

/// A partition beyond this would never be over.
const MOST_POSITIONS: usize = 1_000_000_000_000;
/// More rows than anybody should move while appends wait.
const MOST_MOVED: usize = 10_000_000;
/// Every partition costs each read a little.
const MOST_AHEAD: usize = 100;

impl Default for RetainOptions {
    fn default() -> Self {
        Self {
            keep: None,
            keep_last: None,
            fate: Fate::Drop,
            ranges: Self::RANGES,
            check_every: Duration::from_secs(60),
            lock_wait: Duration::from_millis(500),
            batch: limits::BATCH_ROWS,
            store_timeout: Duration::from_secs(10),
        }
    }
}
