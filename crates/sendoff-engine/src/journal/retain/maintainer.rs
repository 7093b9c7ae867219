//! Deletes what may go from a journal, and keeps its partitions ahead of its writers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_core::journal::retain::{
    PlannedRange, RangeName, Wanted, below, release, to_drop, to_make,
};
use sendoff_core::{Timestamp, report};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::options::RetainOptions;
use super::report::{RetainError, RetainReport, Retained};
use super::store::{
    Fate, Keeping, Leaving, PurgeFacts, RangeSession, RangeTable, RetainJournalStore,
};
use crate::journal::times::position_before;
use crate::operate::WhySkipped;
use crate::options::OptionsError;
use crate::store::{Bounds, Created, Dropped, StoreError, within};
use crate::told::{Progress, is_told, told};

/// A session that keeps partitions may not be silent for long.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// How often a busy partition is tried in one pass.
const TRIES: usize = 3;
/// Pairs that a line of the log names.
const NAMED: usize = 3;

/// Lets go what everybody who follows a journal has passed and the user does not want to keep, and
/// keeps the journal's partitions, where it has some.
///
/// Run it as a task beside publishing, or from the program. Several on one journal are no harm: facts
/// are deleted by whoever comes first, and partitions are kept by one at a time.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use sendoff_engine::journal::retain::{JournalMaintainer, RetainOptions};
/// use sendoff_engine::journal::{Journal, MemoryJournal};
/// use tokio::sync::oneshot;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Journal::new(MemoryJournal::new());
/// let month = Duration::from_secs(30 * 24 * 60 * 60);
/// let options = RetainOptions { keep: Some(month), ..RetainOptions::default() };
/// let maintainer = JournalMaintainer::new(Arc::new(journal.store().clone()), options)?;
/// let (stop, told) = oneshot::channel::<()>();
/// let task = tokio::spawn(async move {
///     maintainer.run(async { drop(told.await) }).await;
/// });
/// drop(stop);
/// task.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct JournalMaintainer {
    store: Arc<dyn RetainJournalStore>,
    options: RetainOptions,
    progress: Progress<RetainReport>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Really,
    /// Counting so many facts at most.
    Dry(usize),
}

impl JournalMaintainer {
    /// Checks the options.
    pub fn new(
        store: Arc<dyn RetainJournalStore>,
        options: RetainOptions,
    ) -> Result<Self, OptionsError> {
        options.validate()?;
        Ok(Self { store, options, progress: Progress::NOBODY })
    }

    /// Tells `progress` after every transaction.
    #[must_use]
    pub fn on_progress(mut self, progress: impl Fn(&RetainReport) + Send + Sync + 'static) -> Self {
        self.progress = Progress::to(progress);
        self
    }

    /// One pass, to its end.
    pub async fn run_once(&self) -> Result<Retained, RetainError> {
        self.pass(Doing::Really, &CancellationToken::new()).await
    }

    /// One pass, until `stop` is ready: it ends between two transactions, and then it is not finished.
    pub async fn run_once_until(
        &self,
        stop: impl Future<Output = ()>,
    ) -> Result<Retained, RetainError> {
        told(stop, |cancel| async move { self.pass(Doing::Really, &cancel).await }).await
    }

    /// What a pass would do now; changes nothing. Facts are counted up to `most`.
    pub async fn dry_run(&self, most: usize) -> Result<Retained, RetainError> {
        self.pass(Doing::Dry(most), &CancellationToken::new()).await
    }

    /// Runs a pass again and again until `stop` is ready. What fails is logged and tried again the
    /// next time.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        told(stop, |cancel| async move { self.again_and_again(&cancel).await }).await;
    }

    async fn again_and_again(&self, cancel: &CancellationToken) {
        loop {
            match self.pass(Doing::Really, cancel).await {
                Ok(Retained::Here(_)) => {}
                Ok(Retained::Elsewhere) => info!("another maintainer keeps the journal"),
                Err(error) => warn!(error = report(&error), "the journal could not be kept"),
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = sleep(self.options.check_every) => {}
            }
        }
    }

    async fn pass(
        &self,
        doing: Doing,
        cancel: &CancellationToken,
    ) -> Result<Retained, RetainError> {
        let mut report = RetainReport::default();
        match self.attempt(doing, cancel, &mut report).await {
            Ok(true) => Ok(Retained::Here(report)),
            Ok(false) => Ok(Retained::Elsewhere),
            Err(source) => Err(RetainError { so_far: Box::new(report), source }),
        }
    }

    /// Whether the work was ours.
    async fn attempt(
        &self,
        doing: Doing,
        cancel: &CancellationToken,
        report: &mut RetainReport,
    ) -> Result<bool, StoreError> {
        let keeping = self.store.keeping().await?;
        let before = self.decide(report).await?;
        match keeping {
            Keeping::Elsewhere => return Ok(false),
            Keeping::Rows if self.options.fate == Fate::Archive => {
                return Err(StoreError::Misconfigured {
                    reason:
                        "only partitions can be archived, and this journal has none: copy what \
                             is to be kept, or let it be deleted"
                            .into(),
                });
            }
            Keeping::Rows => self.rows(before, doing, cancel, report).await?,
            Keeping::Ranges(session) => {
                self.ranges(session, before, doing, cancel, report).await?;
            }
        }
        Ok(true)
    }

    /// What may go, and before which time it must have been recorded.
    async fn decide(&self, report: &mut RetainReport) -> Result<Option<Timestamp>, StoreError> {
        let followers = self.store.followers().await?;
        let before = self.options.keep.map(|keep| followers.now.saturating_sub(keep));
        let aged = match before {
            Some(before) => Some(position_before(&*self.store, before).await?),
            None => None,
        };
        let wanted = Wanted { last: self.options.keep_last, aged };
        report.release = release(wanted, &followers);
        let held = &report.release.held_by;
        if !held.is_empty() {
            let by: Vec<_> = held.iter().take(NAMED).map(ToString::to_string).collect();
            let (up_to, wanted) = (report.release.up_to, report.release.wanted);
            info!(%up_to, %wanted, pairs = held.len(), by = by.join("; "), "facts are held back");
        }
        Ok(before)
    }

    async fn rows(
        &self,
        before: Option<Timestamp>,
        doing: Doing,
        cancel: &CancellationToken,
        report: &mut RetainReport,
    ) -> Result<(), StoreError> {
        let (limit, up_to) = (self.options.batch, report.release.up_to);
        let mut purge = PurgeFacts { after: Position::START, up_to, before, limit };
        if let Doing::Dry(most) = doing {
            purge.limit = most;
            report.facts = self.store.purgeable_facts(&purge).await?;
            report.finished = true;
            return Ok(());
        }
        loop {
            if is_told(cancel).await {
                return Ok(());
            }
            let began = Instant::now();
            // Awaited to its end, which is near: what it deletes must be counted.
            let purged = within(self.options.store_timeout, self.store.purge_facts(&purge)).await?;
            if purged.facts > 0 {
                report.facts += purged.facts;
                report.batches += 1;
                self.progress.tell(report);
            }
            if purged.facts < limit as u64 {
                break;
            }
            purge.after = purged.last;
            // Half of the time is for whoever else uses the journal.
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                () = sleep(began.elapsed()) => {}
            }
        }
        report.finished = true;
        if report.facts > 0 {
            info!(facts = report.facts, up_to = %report.release.up_to, "facts deleted");
        }
        Ok(())
    }

    async fn ranges(
        &self,
        mut session: Box<dyn RangeSession>,
        before: Option<Timestamp>,
        doing: Doing,
        cancel: &CancellationToken,
        report: &mut RetainReport,
    ) -> Result<(), StoreError> {
        let head = self.store.head().await?;
        for table in [RangeTable::Facts, RangeTable::Tags] {
            let survey = session.survey(table).await?;
            for planned in &to_make(&self.options.ranges, head, &survey) {
                if is_told(cancel).await {
                    return session.release().await;
                }
                self.make(&mut *session, table, planned, doing, report).await?;
            }
        }
        let up_to = report.release.up_to;
        let facts = session.survey(RangeTable::Facts).await?;
        for name in to_drop(up_to, &facts.partitions) {
            if is_told(cancel).await {
                return session.release().await;
            }
            let young = match before {
                Some(before) => session.holds_since(name, before).await?,
                None => false,
            };
            if young {
                report.skip(RangeTable::Facts, name, WhySkipped::Young);
            } else {
                self.take_out(&mut *session, RangeTable::Facts, name, doing, report).await?;
            }
        }
        if doing == Doing::Really {
            for leaving in session.leaving().await? {
                if !self.finish(&mut *session, leaving, cancel, report).await? {
                    return session.release().await;
                }
            }
            // Only where no fact is any more: until then it is found by its tags.
            let facts = session.survey(RangeTable::Facts).await?;
            report.in_tail = facts.tail_lowest;
            let gone = below(&facts).min(up_to);
            let tags = session.survey(RangeTable::Tags).await?;
            for name in to_drop(gone, &tags.partitions) {
                self.take_out(&mut *session, RangeTable::Tags, name, doing, report).await?;
            }
        } else {
            report.in_tail = facts.tail_lowest;
        }
        report.finished = true;
        if let Some(lowest) = report.in_tail {
            warn!(%lowest, "facts are in the tail: no partition was made for them in time");
        }
        session.release().await
    }

    async fn make(
        &self,
        session: &mut dyn RangeSession,
        table: RangeTable,
        planned: &PlannedRange,
        doing: Doing,
        report: &mut RetainReport,
    ) -> Result<(), StoreError> {
        let PlannedRange { name, from, to } = *planned;
        if doing != Doing::Really {
            report.made.push((table, name));
            return Ok(());
        }
        let bounds = Bounds {
            lock_wait: self.options.lock_wait,
            // The plan has seen to it; what has several tags has several rows.
            most_moved: u64::MAX,
            drop_dead: false,
        };
        let mut created = Created::Busy;
        for attempt in 0..TRIES {
            self.rest(attempt).await;
            created = session.make(table, planned, bounds).await?;
            if created != Created::Busy {
                break;
            }
        }
        match created {
            Created::Made { moved } => {
                info!(%table, partition = %name, %from, %to, moved, "partition made");
                report.moved += moved;
                report.made.push((table, name));
                self.progress.tell(report);
            }
            Created::Busy => report.skip(table, name, WhySkipped::Busy),
            Created::TailTooFull => report.skip(table, name, WhySkipped::TailTooFull),
        }
        Ok(())
    }

    async fn take_out(
        &self,
        session: &mut dyn RangeSession,
        table: RangeTable,
        name: RangeName,
        doing: Doing,
        report: &mut RetainReport,
    ) -> Result<(), StoreError> {
        let RetainOptions { fate, lock_wait, .. } = self.options;
        if doing != Doing::Really {
            match fate {
                Fate::Drop => report.dropped.push(name),
                Fate::Archive => report.archived.push(name.to_string()),
            }
            return Ok(());
        }
        let mut outcome = Dropped::Busy;
        for attempt in 0..TRIES {
            self.rest(attempt).await;
            outcome = session.take_out(table, name, fate, lock_wait).await?;
            if outcome != Dropped::Busy {
                break;
            }
        }
        match outcome {
            Dropped::Gone => info!(%table, partition = %name, ?fate, "partition taken out"),
            Dropped::Pending | Dropped::Dead => report.skip(table, name, WhySkipped::Followed),
            Dropped::Busy => report.skip(table, name, WhySkipped::Busy),
        }
        Ok(())
    }

    /// Whether it came to its end.
    async fn finish(
        &self,
        session: &mut dyn RangeSession,
        leaving: Leaving,
        cancel: &CancellationToken,
        report: &mut RetainReport,
    ) -> Result<bool, StoreError> {
        let mut after = Position::START;
        while let Some(last) = session.forget_ids(leaving, after, self.options.batch).await? {
            after = last;
            if is_told(cancel).await {
                return Ok(false);
            }
        }
        match session.finish(leaving).await? {
            Some(table) => report.archived.push(table),
            None => report.dropped.push(leaving.name),
        }
        self.progress.tell(report);
        Ok(true)
    }

    /// Lets those go on who waited for a lock that this change did not get.
    async fn rest(&self, attempt: usize) {
        if attempt > 0 {
            sleep(self.options.lock_wait.min(LONGEST_REST)).await;
        }
    }
}

impl fmt::Debug for JournalMaintainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalMaintainer").field("options", &self.options).finish_non_exhaustive()
    }
}
