//! A batch in a consumer's hands: its answers, and its commit or rollback.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sendoff_core::{BoxError, Delivery, EventId, Failure};

use crate::dispatch::{Due, FollowUp, Place};
use crate::settle::{Answer, Answers, SettledBatch};
use crate::source::{Asking, HeldKeys, HeldRows, Locked};
use crate::store::{Outcome, StoreError};

/// Events in this consumer's hands, at least one.
///
/// Answer each with [`ack`](Self::ack), [`fail`](Self::fail) or [`dead`](Self::dead), then
/// [`commit`](Self::commit). What has no answer by then is put back exactly as it was, and so is
/// everything after [`rollback`](Self::rollback), or when the batch is dropped.
#[must_use = "a batch that is dropped is rolled back"]
pub struct Batch {
    pub(super) records: Arc<[Due]>,
    /// Where among them an event is.
    pub(super) by_id: BTreeMap<EventId, usize>,
    pub(super) answers: BTreeMap<EventId, Outcome>,
    /// Rows that are no event, or that killed too many processes: dead without being seen.
    pub(super) ends: BTreeMap<EventId, Outcome>,
    pub(super) source: Source,
    pub(super) follow_up: FollowUp,
    /// Whether there may be more than this.
    pub(super) full: bool,
    pub(super) put_back: PutBack,
    /// Given back when the batch is over.
    pub(super) _place: Place,
}

/// Makes the next look begin at the beginning, unless every event of the batch was settled.
#[derive(Debug)]
pub(super) struct PutBack(pub(super) Option<Arc<Asking>>);

impl Drop for PutBack {
    fn drop(&mut self) {
        if let Some(asking) = &self.0 {
            asking.put_back();
        }
    }
}

/// What keeps the rows.
pub(super) enum Source {
    Held(HeldRows),
    Locked(Locked),
    /// Their keys are held: the batch has events of each in order, and nothing else.
    Keys(HeldKeys),
}

/// How a batch ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchReport {
    /// Delivered.
    pub done: usize,
    /// Failed, and to be tried again.
    pub retried: usize,
    /// Dead: no more attempts.
    pub dead: usize,
    /// Not answered: put back as they were, or somebody else has them by now.
    pub untouched: usize,
    /// Answered, but no longer ours: somebody else has them, nothing was changed, and they may be delivered
    /// twice.
    pub fenced: usize,
    /// Answered, but not recorded so far: somebody else has the row locked, or the database refuses.
    /// Tried on while it is locked, and delivered again if another process has the row by then.
    pub unsettled: usize,
}

/// An answer that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// It is not in this batch.
    #[error("event {id} is not in this batch; answer the ids of its records")]
    NotInBatch {
        /// The event.
        id: EventId,
    },
    /// It was answered before.
    #[error("event {id} was answered before in this batch; one answer counts")]
    AnsweredTwice {
        /// The event.
        id: EventId,
    },
    /// One before it in its ordering key has no answer that lets it follow.
    #[error("event {id} comes after {first} in its ordering key: ack that one first")]
    OutOfOrder {
        /// The event.
        id: EventId,
        /// The first of its key that was not acked.
        first: EventId,
    },
}

impl Batch {
    /// The events, oldest due first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        self.records.iter().map(|record| &record.delivery)
    }

    /// Whether an event is certainly still this batch's, so that it may be handled. A hold runs
    /// out unless it is [extended](Self::extend); a lock lasts as long as the batch.
    pub fn is_held(&self, id: EventId) -> bool {
        match &self.source {
            Source::Held(held) => held.is_held(id),
            Source::Locked(locked) => locked.is_open() && self.record(id).is_ok(),
            Source::Keys(keys) => keys.is_held(id),
        }
    }

    /// Holds every event for longer, and says how many were lost to others. Await it to its end. In
    /// mode [`Locked`](super::ClaimMode::Locked) it keeps the transaction awake, which the server ends
    /// when it hears nothing for too long.
    pub async fn extend(&self) -> Result<usize, StoreError> {
        match &self.source {
            Source::Held(held) => held.extend().await,
            Source::Locked(locked) => locked.keep_awake().await.map(|()| 0),
            Source::Keys(keys) => keys.extend().await,
        }
    }

    /// It was delivered.
    pub fn ack(&mut self, id: EventId) -> Result<(), BatchError> {
        self.answer(id, |_, _| Outcome::Done)
    }

    /// It failed: one more attempt, tried again after the retry policy's delay, or dead when that was
    /// the last one. Any error will do, and one of a payload that cannot be read is dead; a [`Failure`]
    /// says more.
    pub fn fail(&mut self, id: EventId, failure: impl Into<Failure>) -> Result<(), BatchError> {
        let failure = failure.into();
        let class = failure.class();
        self.answer(id, |follow_up, due| {
            follow_up.after(&due.delivery, due.attempt, &failure, class, due.waited)
        })
    }

    /// It will never succeed.
    pub fn dead(&mut self, id: EventId, error: impl Into<BoxError>) -> Result<(), BatchError> {
        self.fail(id, Failure::dead(error))
    }

    /// Stores the answers, and puts the rest back as it was.
    ///
    /// # Errors
    ///
    /// After an error nobody knows which answers were stored; what was not is visible again, at once
    /// or when its hold ends.
    pub async fn commit(mut self) -> Result<BatchReport, StoreError> {
        let mut answers = std::mem::take(&mut self.answers);
        let unanswered = self.records.len() - answers.len();
        answers.append(&mut self.ends);
        let answers = self.answers_of(answers);
        let report = match self.source {
            Source::Locked(locked) => {
                let settled = locked.commit(answers).await?;
                BatchReport { untouched: unanswered, ..BatchReport::of(settled) }
            }
            Source::Held(held) => BatchReport::of(held.settle(answers).await?),
            Source::Keys(keys) => BatchReport::of(keys.settle(answers).await?),
        };
        if unanswered == 0 && report.unsettled == 0 {
            self.put_back.0 = None;
        }
        Ok(report)
    }

    /// Stores these answers and puts these events back, before the rest of the batch is done. Where a
    /// transaction keeps them that cannot be, and nothing is done.
    pub(super) async fn settle_some(
        &self,
        answers: Vec<(EventId, Outcome)>,
        put_back: &[EventId],
    ) -> Result<BatchReport, StoreError> {
        let Source::Held(held) = &self.source else { return Ok(BatchReport::default()) };
        let settled = held.settle_some(self.answers_of(answers), put_back).await;
        if let (false, Some(asking)) = (put_back.is_empty(), &self.put_back.0) {
            asking.put_back();
        }
        settled.map(BatchReport::of)
    }

    fn answers_of(&self, outcomes: impl IntoIterator<Item = (EventId, Outcome)>) -> Answers {
        let answer = |(id, outcome)| {
            let attempt = self.record(id).ok().map(|record| record.attempt);
            (id, Answer { outcome, attempt })
        };
        outcomes.into_iter().map(answer).collect()
    }

    /// Puts everything back as it was, whatever was answered.
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.source {
            Source::Locked(locked) => locked.rollback().await,
            Source::Held(held) => held.settle(BTreeMap::new()).await.map(drop),
            Source::Keys(keys) => keys.settle(BTreeMap::new()).await.map(drop),
        }
    }

    fn record(&self, id: EventId) -> Result<&Due, BatchError> {
        let found = self.by_id.get(&id).and_then(|&at| self.records.get(at));
        found.ok_or(BatchError::NotInBatch { id })
    }

    /// The first event before this one in its key that does not let it follow.
    fn first_before(&self, id: EventId) -> Option<EventId> {
        let Source::Keys(keys) = &self.source else { return None };
        let key = keys.key_of(id)?;
        let of_key = self.records.iter().map(|record| record.delivery.id());
        let before = of_key.take_while(|other| *other != id);
        let follows = |other: &EventId| {
            let answer = self.answers.get(other).or_else(|| self.ends.get(other));
            answer.is_some_and(Outcome::lets_others_follow)
        };
        before.filter(|other| keys.key_of(*other) == Some(key)).find(|other| !follows(other))
    }

    fn answer(
        &mut self,
        id: EventId,
        outcome: impl FnOnce(&FollowUp, &Due) -> Outcome,
    ) -> Result<(), BatchError> {
        let record = self.record(id)?;
        if self.answers.contains_key(&id) {
            return Err(BatchError::AnsweredTwice { id });
        }
        if let Some(first) = self.first_before(id) {
            return Err(BatchError::OutOfOrder { id, first });
        }
        let outcome = outcome(&self.follow_up, record);
        self.answers.insert(id, outcome);
        Ok(())
    }
}

impl BatchReport {
    fn of(settled: SettledBatch) -> Self {
        let SettledBatch { written, fenced, gone, unsettled } = settled;
        let mut report = Self { fenced, unsettled, untouched: gone, ..Self::default() };
        written.iter().for_each(|outcome| *report.count(outcome) += 1);
        report
    }

    /// The two parts of one batch.
    pub(super) fn add(&mut self, other: Self) {
        let Self { done, retried, dead, untouched, fenced, unsettled } = other;
        self.done += done;
        self.retried += retried;
        self.dead += dead;
        self.untouched += untouched;
        self.fenced += fenced;
        self.unsettled += unsettled;
    }

    fn count(&mut self, outcome: &Outcome) -> &mut usize {
        match outcome {
            Outcome::Done => &mut self.done,
            Outcome::Retry { .. } | Outcome::Wait { .. } => &mut self.retried,
            Outcome::Dead { .. } => &mut self.dead,
            Outcome::Released | Outcome::Restored { .. } => &mut self.untouched,
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("records", &self.records.len())
            .field("answers", &self.answers.len())
            .finish_non_exhaustive()
    }
}
