//! What an operator can see and change. The same can be done by plain SQL on the table of cursors.

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::PairId;
use sendoff_core::{Timestamp, limits};

use super::store::{
    Change, ChangeParked, Cursor, Parked, ParkedChange, ParkedPage, PublishStore, Which,
};
use crate::journal::handle::Journal;
use crate::journal::times::position_before;
use crate::store::StoreError;

/// Where a cursor is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// After this position; its next fact is the one after it.
    Position(Position),
    /// Before whatever was recorded at this time or later, give or take a second too early.
    Time(Timestamp),
}

/// The publishers of a journal, wherever they run.
#[derive(Debug, Clone)]
pub struct Publishers<S> {
    journal: Journal<S>,
}

impl<S: PublishStore> Journal<S> {
    /// Its publishers, to be looked at and operated.
    pub fn publishers(&self) -> Publishers<S> {
        Publishers { journal: self.clone() }
    }
}

impl<S: PublishStore> Publishers<S> {
    pub(in crate::journal) fn store(&self) -> &S {
        self.journal.store()
    }

    pub(in crate::journal) fn journal(&self) -> &Journal<S> {
        &self.journal
    }

    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError> {
        let changed = self.journal.bounded(self.store().change(which, change)).await?;
        self.journal.operated().send_replace(());
        Ok(changed)
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        self.journal.bounded(self.store().change_parked(change)).await
    }

    /// Where these pairs are.
    pub async fn cursors(&self, which: &Which) -> Result<Vec<Cursor>, StoreError> {
        let mut cursors = self.journal.bounded(self.store().survey()).await?.cursors;
        cursors.retain(|cursor| which.means(&cursor.pair));
        Ok(cursors)
    }

    /// By how many positions each of these pairs lags: from its own to the last one that was taken.
    pub async fn lag(&self, which: &Which) -> Result<Vec<(PairId, u64)>, StoreError> {
        // First where they are: what comes between is lag, never less than none.
        let cursors = self.cursors(which).await?;
        let head = self.journal.head().await?;
        Ok(cursors.into_iter().map(|c| (c.pair, head.since(c.position))).collect())
    }

    /// Stops these pairs after the batch they are at when their node finds it: nodes that work with this
    /// journal in this process look at once, others at their next round. Answers how many there are.
    pub async fn pause(&self, which: &Which) -> Result<u64, StoreError> {
        self.change(which, Change::Pause).await
    }

    /// Lets pairs go on that were paused, where they were. One that failed has to be
    /// [`reset`](Self::reset).
    pub async fn resume(&self, which: &Which) -> Result<u64, StoreError> {
        self.change(which, Change::Resume).await
    }

    /// Lets pairs go on that were paused or had failed, and forgets their errors.
    pub async fn reset(&self, which: &Which) -> Result<u64, StoreError> {
        self.change(which, Change::Reset).await
    }

    /// Puts their cursors somewhere else, back or ahead. Whoever leads them goes on from there.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) for a position that nobody has taken yet: whatever is
    /// appended up to there would never be published.
    pub async fn rewind(&self, which: &Which, to: To) -> Result<u64, StoreError> {
        let position = match to {
            To::Position(position) => {
                let head = self.journal.head().await?;
                if position > head {
                    let reason = format!(
                        "position {position} is ahead of the journal, which ends at {head}"
                    );
                    return Err(StoreError::Misconfigured { reason });
                }
                position
            }
            To::Time(time) => position_before(self.store(), time).await?,
        };
        self.change(which, Change::MoveTo(position)).await
    }

    /// What is parked, after the given one: page by page, in the order of pairs and positions.
    pub async fn parked(
        &self,
        which: &Which,
        after: Option<(&PairId, Position)>,
        limit: usize,
    ) -> Result<Vec<Parked>, StoreError> {
        let limit = limit.min(limits::BATCH_ROWS);
        let page = ParkedPage { which, after, limit };
        self.journal.bounded(self.store().parked(page)).await
    }

    /// Makes what is parked due now, one position or all. Answers how many.
    pub async fn retry_parked(
        &self,
        which: &Which,
        position: Option<Position>,
    ) -> Result<u64, StoreError> {
        let change = ParkedChange::Retry;
        self.change_parked(ChangeParked { which, position, change }).await
    }

    /// Forgets what is parked, one position or all. It will not be published. Answers how many.
    pub async fn discard_parked(
        &self,
        which: &Which,
        position: Option<Position>,
    ) -> Result<u64, StoreError> {
        let change = ParkedChange::Discard;
        self.change_parked(ChangeParked { which, position, change }).await
    }
}
