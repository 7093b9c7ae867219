//! Options of a journal's retention.

use std::num::NonZeroU64;
use std::time::Duration;

use sendoff_core::journal::retain::Ranges;
use sendoff_core::limits;

use super::store::Fate;
use crate::options::{LONGEST, OptionsError, SHORTEST, check_counts, check_times};

/// What of a journal is kept, and how the rest goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct RetainOptions {
    /// How long a fact is kept at least. No bound by default.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
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
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub check_every: Duration,
    /// How long a change of partitions waits for its locks, and appends with it, before it is left
    /// for the next time. 500 ms.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub lock_wait: Duration,
    /// Facts in one transaction, where they are deleted one by one. 1,000.
    pub batch: usize,
    /// How long one such transaction may take. 10 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub store_timeout: Duration,
}

impl RetainOptions {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let whole = |number: NonZeroU64| usize::try_from(number.get()).unwrap_or(usize::MAX);
        check_counts(&[
            ("batch", self.batch, limits::BATCH_ROWS),
            ("ranges.size", whole(self.ranges.size), MOST_POSITIONS),
            ("ranges.most_moved", whole(self.ranges.most_moved), MOST_MOVED),
            (
                "ranges.ahead",
                whole(NonZeroU64::MIN.saturating_add(self.ranges.ahead.into())),
                MOST_AHEAD,
            ),
        ])?;
        check_times(&[
            ("keep", self.keep.unwrap_or_default(), Duration::ZERO, LONGEST),
            ("check_every", self.check_every, SHORTEST, LONGEST),
            ("lock_wait", self.lock_wait, SHORTEST, limits::HOLD),
            ("store_timeout", self.store_timeout, SHORTEST, limits::HOLD),
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
            ranges: Ranges::DEFAULT,
            check_every: Duration::from_secs(60),
            lock_wait: Duration::from_millis(500),
            batch: limits::BATCH_ROWS,
            store_timeout: Duration::from_secs(10),
        }
    }
}
