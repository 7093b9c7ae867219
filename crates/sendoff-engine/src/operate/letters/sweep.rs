//! Requeues or discards whatever a filter means, in short transactions, and ends.

use std::fmt;
use std::time::Duration;

use sendoff_core::{
    AuditNote, Death, Letter, LetterAct, LetterCount, LetterFate, LetterFilter, LetterOrder,
    LetterPosition, Timestamp, limits,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{COUNTED, DeadLetters, LettersError, told as say};
use crate::options::{MOST, OptionsError, check_counts};
use crate::store::{LetterPage, StoreError};
use crate::told::{Progress, is_told, told};

/// How letters are swept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepOptions {
    /// Letters in one transaction. 500.
    pub batch: usize,
    /// Letters in a second, at most. Without a limit; but after each batch it rests for as long as that
    /// took, so that whoever else uses the table has half of the time to himself.
    pub per_second: Option<usize>,
    /// Ends when so many were requeued or discarded. All.
    pub limit: Option<u64>,
    /// Only letters that died at this time or earlier, by the database's clock. When the sweep begins; a
    /// sweep that continues another is given when that one [began](Swept::began).
    pub began: Option<Timestamp>,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self { batch: limits::LETTERS, per_second: None, limit: None, began: None }
    }
}

impl SweepOptions {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        check_counts(&[
            ("batch", self.batch, limits::LETTERS),
            ("per_second", self.per_second.unwrap_or(1), MOST),
        ])
    }
}

/// Requeues or discards whatever a filter means, batch by batch.
///
/// It ends, also while handlers still fail: only letters that died before it began are touched, so that
/// an event that dies again meanwhile is not requeued for ever. It waits for nothing that somebody has
/// locked. Several sweeps may go on at once; each letter is changed by one of them.
#[derive(Clone)]
#[must_use = "nothing is done before `run`"]
pub struct LetterSweep {
    letters: DeadLetters,
    act: LetterAct,
    filter: LetterFilter,
    note: AuditNote,
    options: SweepOptions,
    progress: Progress<Swept>,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// When it began, by the database's clock: what died later was left alone.
    pub began: Option<Timestamp>,
    /// Letters that were requeued, or discarded.
    pub done: u64,
    /// Letters that are as they were, because somebody had them locked.
    pub busy: u64,
    /// Letters that somebody else requeued, discarded or deleted meanwhile.
    pub passed: u64,
    /// Transactions.
    pub batches: u64,
    /// Whether it came to the end, and was neither told to stop nor stopped by its limit before that.
    pub finished: bool,
}

/// A sweep that failed half-way.
#[derive(Debug, thiserror::Error)]
#[error("the sweep failed after {} letters", so_far.done)]
pub struct SweepError {
    /// What it had done by then, committed. Where the database did not answer in time, the last batch may
    /// have been carried out as well; the audit says so.
    pub so_far: Swept,
    /// What went wrong.
    pub source: StoreError,
}

impl LetterSweep {
    pub(super) fn new(
        letters: DeadLetters,
        act: LetterAct,
        filter: LetterFilter,
        note: AuditNote,
        options: SweepOptions,
    ) -> Result<Self, LettersError> {
        filter.check()?;
        options.validate()?;
        Ok(Self { letters, act, filter, note, options, progress: Progress::NOBODY })
    }

    /// Tells `progress` after every transaction.
    pub fn on_progress(mut self, progress: impl Fn(&Swept) + Send + Sync + 'static) -> Self {
        self.progress = Progress::to(progress);
        self
    }

    /// How many letters it would change, counted up to 10,000.
    pub async fn dry_run(&self) -> Result<LetterCount, LettersError> {
        self.dry_run_up_to(COUNTED).await
    }

    /// The same, counted up to `most`.
    pub async fn dry_run_up_to(&self, most: u64) -> Result<LetterCount, LettersError> {
        Ok(self.letters.counted(&self.filter, self.options.began, most).await?)
    }

    /// Sweeps until no letter is left that died before it began.
    ///
    /// Dropped half-way, it leaves whole transactions behind.
    pub async fn run(&self) -> Result<Swept, SweepError> {
        self.sweep(&CancellationToken::new()).await
    }

    /// Like [`run`](Self::run), and ends between two transactions when `stop` is ready; the counts then
    /// tell what was done.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) -> Result<Swept, SweepError> {
        told(stop, |cancel| async move { self.sweep(&cancel).await }).await
    }

    async fn sweep(&self, cancel: &CancellationToken) -> Result<Swept, SweepError> {
        let mut swept = Swept::default();
        let ended = self.batches(cancel, &mut swept).await;
        if swept.done > 0 {
            say(self.act, &self.note, swept.done);
        }
        match ended {
            Ok(()) => Ok(swept),
            Err(source) => Err(SweepError { so_far: swept, source }),
        }
    }

    async fn batches(
        &self,
        cancel: &CancellationToken,
        swept: &mut Swept,
    ) -> Result<(), StoreError> {
        let began = match self.options.began {
            Some(began) => began,
            None => self.letters.clock().await?,
        };
        swept.began = Some(began);
        let mut after = None;
        while !is_told(cancel).await {
            let limit = self.room(swept.done);
            if limit == 0 {
                return Ok(());
            }
            let since = Instant::now();
            let found = self.found(began, after, limit).await?;
            let more = found.len() == limit;
            after = found.last().map(Letter::position).or(after);
            if !found.is_empty() {
                // Awaited to its end, which is near: what it changes must be counted.
                self.change(&found, swept).await?;
                self.progress.tell(swept);
            }
            if !more {
                swept.finished = true;
                return Ok(());
            }
            self.rest(found.len(), since.elapsed(), cancel).await;
        }
        Ok(())
    }

    /// The letters of the next batch, in the order in which they died: whatever is done to them, they are
    /// not found again.
    async fn found(
        &self,
        began: Timestamp,
        after: Option<LetterPosition>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        let order = LetterOrder::OldestFirst;
        let page = LetterPage { filter: &self.filter, order, after, until: Some(began), limit };
        self.letters.page(&page).await
    }

    async fn change(&self, found: &[Letter], swept: &mut Swept) -> Result<(), StoreError> {
        let deaths: Vec<Death> = found.iter().map(Letter::death).collect();
        for fate in self.letters.change(self.act, &deaths, &self.note).await? {
            match fate {
                LetterFate::Done => swept.done += 1,
                LetterFate::Busy => swept.busy += 1,
                LetterFate::NotDead { .. } | LetterFate::DiedAgain | LetterFate::NotFound => {
                    swept.passed += 1;
                }
            }
        }
        swept.batches += 1;
        Ok(())
    }

    /// Letters of the next batch, after so many were done.
    fn room(&self, done: u64) -> usize {
        let SweepOptions { batch, per_second, limit, .. } = self.options;
        let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(done));
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        batch.min(per_second.unwrap_or(batch)).min(left)
    }

    async fn rest(&self, letters: usize, took: Duration, cancel: &CancellationToken) {
        let rest = rest(letters, took, self.options.per_second);
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = sleep(rest) => {}
        }
    }
}

/// How long to rest after a batch.
fn rest(letters: usize, took: Duration, per_second: Option<usize>) -> Duration {
    let paced = per_second.map_or(Duration::ZERO, |rate| {
        let seconds = letters as f64 / rate.max(1) as f64;
        Duration::from_secs_f64(seconds).saturating_sub(took)
    });
    paced.max(took)
}

impl fmt::Debug for LetterSweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LetterSweep")
            .field("act", &self.act)
            .field("filter", &self.filter)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_rested_from_and_a_rate_is_kept() {
        let ms = Duration::from_millis;
        assert_eq!(rest(500, ms(40), None), ms(40));
        assert_eq!(rest(500, ms(40), Some(500)), ms(960));
        assert_eq!(rest(500, ms(1_500), Some(500)), ms(1_500), "slower than it may be");
    }

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        let path = |options: SweepOptions| options.validate().unwrap_err().path().to_owned();
        assert!(SweepOptions::default().validate().is_ok());
        for batch in [0, limits::LETTERS + 1] {
            assert_eq!(path(SweepOptions { batch, ..SweepOptions::default() }), "batch");
        }
        let per_second = Some(0);
        assert_eq!(path(SweepOptions { per_second, ..SweepOptions::default() }), "per_second");
    }
}
