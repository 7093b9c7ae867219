//! Deletes rows past their retention in short transactions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Timestamp, limits, report};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::options::{LONGEST, OptionsError, SHORTEST, check_counts, check_times};
use crate::store::{Cutoff, Purge, Purged, RetainStore, StoreError, Trail, within};
use crate::told::{Progress, is_told, told};

/// How rows past their retention are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct CleanupOptions {
    /// How long ago a row must have ended. 7 days.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub retention: Duration,
    /// How often to look again, in [`run`](CleanupMaintainer::run). 1 h.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub check_every: Duration,
    /// Rows in one pass; full passes follow each other, with a rest between them. 10,000.
    pub limit: usize,
    /// Rows in one transaction. 1,000.
    pub batch: usize,
    /// Whether dead rows go too. No.
    pub include_dead: bool,
    /// How long an [`Inbox`](crate::Inbox) remembers what was seen; none for ever. None. Longer than an event may
    /// still come again.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
    pub inbox_retention: Option<Duration>,
    /// How long the audit remembers what operators did; none for ever. None. Longer than anybody waits for an event:
    /// only its entry tells that one was discarded.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
    pub audit_retention: Option<Duration>,
    /// How long one transaction may take. 10 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub store_timeout: Duration,
}

impl Default for CleanupOptions {
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(7 * 24 * 60 * 60),
            check_every: Duration::from_secs(60 * 60),
            limit: 10_000,
            batch: limits::BATCH_ROWS,
            include_dead: false,
            inbox_retention: None,
            audit_retention: None,
            store_timeout: Duration::from_secs(10),
        }
    }
}

/// A pass beyond this is no longer bounded by anything.
const MOST_IN_A_PASS: usize = 10_000_000;

impl CleanupOptions {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        check_counts(&[
            ("limit", self.limit, MOST_IN_A_PASS),
            ("batch", self.batch, limits::BATCH_ROWS),
        ])?;
        check_times(&[
            ("retention", self.retention, Duration::ZERO, LONGEST),
            ("inbox_retention", self.inbox_retention.unwrap_or(LONGEST), Duration::ZERO, LONGEST),
            ("audit_retention", self.audit_retention.unwrap_or(LONGEST), Duration::ZERO, LONGEST),
            ("check_every", self.check_every, SHORTEST, LONGEST),
            ("store_timeout", self.store_timeout, SHORTEST, limits::HOLD),
        ])
    }
}

/// Deletes terminal rows past their retention, in short transactions, until none is left.
///
/// It keeps up with any inflow: the limit bounds a pass, not the work. Pending rows are never touched.
/// Several may work on one table; they delete different rows.
///
/// ```
/// use std::sync::Arc;
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::{CleanupMaintainer, CleanupOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = CleanupOptions { include_dead: true, ..CleanupOptions::default() };
/// let cleanup = CleanupMaintainer::new(Arc::new(MemoryStore::new()), options)?;
/// assert_eq!(cleanup.run_once().await?.purged.total(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CleanupMaintainer {
    store: Arc<dyn RetainStore>,
    options: CleanupOptions,
    cutoff: Cutoff,
    progress: Progress<Cleaned>,
}

/// What a cleanup did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Rows that are gone.
    pub purged: Purged,
    /// Rows of the inbox that are gone.
    pub seen: u64,
    /// Entries of the audit that are gone.
    pub audit: u64,
    /// Transactions that deleted them.
    pub batches: u64,
    /// Passes; all but the last were full.
    pub passes: u64,
    /// Whether nothing was left to delete.
    pub finished: bool,
}

impl Cleaned {
    /// How many rows of a trail are gone.
    fn gone(&mut self, trail: Trail) -> &mut u64 {
        match trail {
            Trail::Seen => &mut self.seen,
            Trail::Audit => &mut self.audit,
        }
    }
}

/// A cleanup that failed half-way.
#[derive(Debug, thiserror::Error)]
#[error("cleanup failed after {} rows were deleted", so_far.purged.total())]
pub struct CleanupError {
    /// What it had done by then, committed.
    pub so_far: Cleaned,
    /// What went wrong.
    pub source: StoreError,
}

impl CleanupMaintainer {
    /// Checks the options.
    pub fn new(store: Arc<dyn RetainStore>, options: CleanupOptions) -> Result<Self, OptionsError> {
        options.validate()?;
        Ok(Self::unchecked(store, options))
    }

    /// The engine's own upkeep keeps to the limits without a user's options.
    pub(crate) fn unchecked(store: Arc<dyn RetainStore>, options: CleanupOptions) -> Self {
        let cutoff = Cutoff::Age(options.retention);
        Self { store, options, cutoff, progress: Progress::NOBODY }
    }

    /// Deletes what ended before a moment, in the place of what is past the options' retention. A moment
    /// in the future lets every row go that is terminal.
    #[must_use]
    pub fn before(mut self, moment: Timestamp) -> Self {
        self.cutoff = Cutoff::Before(moment);
        self
    }

    /// Tells `progress` after every transaction.
    #[must_use]
    pub fn on_progress(mut self, progress: impl Fn(&Cleaned) + Send + Sync + 'static) -> Self {
        self.progress = Progress::to(progress);
        self
    }

    /// Deletes until nothing is left that is past its retention.
    ///
    /// Dropped half-way, it leaves whole transactions behind.
    pub async fn run_once(&self) -> Result<Cleaned, CleanupError> {
        self.once(&CancellationToken::new()).await
    }

    /// Like [`run_once`](Self::run_once), and ends early when `stop` is ready; the counts then tell
    /// what was done.
    pub async fn run_once_until(
        &self,
        stop: impl Future<Output = ()>,
    ) -> Result<Cleaned, CleanupError> {
        told(stop, |cancel| async move { self.once(&cancel).await }).await
    }

    async fn once(&self, cancel: &CancellationToken) -> Result<Cleaned, CleanupError> {
        let mut cleaned = Cleaned::default();
        loop {
            let began = Instant::now();
            let pass = self.pass(cancel, &mut cleaned).await;
            let full = pass.map_err(|source| CleanupError { so_far: cleaned, source })?;
            if !full {
                break;
            }
            debug!(cleaned = cleaned.purged.total(), "a full pass; more to come");
            // As long as the pass took: whoever else uses the table has half of the time to himself.
            let rest = sleep(began.elapsed());
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = rest => {}
            }
        }
        let CleanupOptions { inbox_retention, audit_retention, .. } = self.options;
        for (trail, retention) in [(Trail::Seen, inbox_retention), (Trail::Audit, audit_retention)]
        {
            if let Some(retention) = retention.filter(|_| cleaned.finished) {
                let forgotten = self.forget(cancel, trail, retention, &mut cleaned).await;
                forgotten.map_err(|source| CleanupError { so_far: cleaned, source })?;
            }
        }
        if cleaned.seen > 0 {
            info!(rows = cleaned.seen, "rows of the inbox past their retention deleted");
        }
        if cleaned.audit > 0 {
            info!(rows = cleaned.audit, "entries of the audit past their retention deleted");
        }
        if cleaned.purged.total() > 0 {
            let Purged { done, dead } = cleaned.purged;
            info!(done, dead, batches = cleaned.batches, "rows past their retention deleted");
        }
        Ok(cleaned)
    }

    /// Up to `limit` rows; whether it was that many.
    async fn pass(
        &self,
        cancel: &CancellationToken,
        cleaned: &mut Cleaned,
    ) -> Result<bool, StoreError> {
        let mut left = self.options.limit;
        cleaned.passes += 1;
        while left > 0 {
            let limit = left.min(self.options.batch);
            if is_told(cancel).await {
                return Ok(false);
            }
            // Awaited to its end, which is near: what it deletes must be counted.
            let purged = self.purge(limit).await?;
            let count = usize::try_from(purged.total()).unwrap_or(limit);
            if count > 0 {
                cleaned.purged += purged;
                cleaned.batches += 1;
                self.progress.tell(cleaned);
            }
            if count < limit {
                cleaned.finished = true;
                return Ok(false);
            }
            left = left.saturating_sub(count);
        }
        Ok(true)
    }

    /// Rows of a trail that are from long ago, where there is that trail.
    async fn forget(
        &self,
        cancel: &CancellationToken,
        trail: Trail,
        retention: Duration,
        cleaned: &mut Cleaned,
    ) -> Result<(), StoreError> {
        let CleanupOptions { batch, store_timeout, .. } = self.options;
        cleaned.finished = false;
        while !is_told(cancel).await {
            let forget = self.store.forget(trail, Cutoff::Age(retention), batch);
            let gone = match within(store_timeout, forget).await {
                // Who looks after events alone may have neither the table nor rights to it.
                Err(error @ (StoreError::Schema { .. } | StoreError::Rights { .. })) => {
                    debug!(?trail, error = report(&error), "nothing here that could be cleaned");
                    0
                }
                gone => gone?,
            };
            *cleaned.gone(trail) += gone;
            cleaned.batches += u64::from(gone > 0);
            if gone < batch as u64 {
                cleaned.finished = true;
                break;
            }
            self.progress.tell(cleaned);
        }
        Ok(())
    }

    async fn purge(&self, limit: usize) -> Result<Purged, StoreError> {
        let purge = self.what(limit);
        within(self.options.store_timeout, self.store.purge(&purge)).await
    }

    fn what(&self, limit: usize) -> Purge {
        Purge { cutoff: self.cutoff, limit, dead: self.options.include_dead }
    }

    /// How many rows [`run_once`](Self::run_once) would delete, counted up to `most`.
    pub async fn dry_run(&self, most: usize) -> Result<Purged, StoreError> {
        self.store.purgeable(&self.what(most)).await
    }

    /// Runs [`run_once`](Self::run_once) again and again until `stop` is ready, and returns what it
    /// did in all. What fails is logged and tried again the next time.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Cleaned {
        told(stop, |cancel| async move { self.again_and_again(&cancel).await }).await
    }

    async fn again_and_again(&self, cancel: &CancellationToken) -> Cleaned {
        let mut total = Cleaned::default();
        loop {
            let cleaned = match self.once(cancel).await {
                Ok(cleaned) => cleaned,
                Err(error) => {
                    let deleted = error.so_far.purged.total();
                    warn!(error = report(&error), deleted, "cleanup failed half-way");
                    error.so_far
                }
            };
            total.purged += cleaned.purged;
            total.seen += cleaned.seen;
            total.audit += cleaned.audit;
            total.batches += cleaned.batches;
            total.passes += cleaned.passes;
            total.finished = cleaned.finished;
            tokio::select! {
                biased;
                () = cancel.cancelled() => return total,
                () = sleep(self.options.check_every) => {}
            }
        }
    }
}

impl fmt::Debug for CleanupMaintainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CleanupMaintainer")
            .field("options", &self.options)
            .field("cutoff", &self.cutoff)
            .finish_non_exhaustive()
    }
}
