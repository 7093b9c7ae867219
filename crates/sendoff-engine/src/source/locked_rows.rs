//! The locked rows of one batch of a relay, and the transaction that keeps them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{EventId, Timestamp, report};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

use super::beside::beside;
use super::{Deadline, HeldRows, Holds};
use crate::relay::RelayStore;
use crate::settle::{Answer, Answers, SettledBatch, Terms, storable};
use crate::store::{Claim, Claimed, LockedRows, Outcome, StoreError, Suspects, within};

/// Rows that a transaction keeps locked for one batch.
pub(crate) struct Locked {
    /// None once the transaction is known to be over.
    rows: Mutex<Option<Box<dyn LockedRows>>>,
    /// When the server ends a transaction that nobody speaks in.
    idle_limit: Option<Duration>,
    store: Arc<dyn RelayStore>,
    owner: Arc<str>,
    terms: Terms,
    /// The earliest time at which one of them was due.
    oldest: Option<Timestamp>,
}

impl Locked {
    pub(crate) fn new(
        store: Arc<dyn RelayStore>,
        owner: Arc<str>,
        terms: Terms,
        rows: Box<dyn LockedRows>,
        claimed: &[Claimed],
    ) -> Self {
        let oldest = claimed.iter().map(|row| row.was_due).min();
        let idle_limit = rows.idle_limit();
        Self { rows: Mutex::new(Some(rows)), idle_limit, store, owner, terms, oldest }
    }

    /// Whether the transaction is there, as far as we know.
    pub(crate) fn is_open(&self) -> bool {
        match self.rows.try_lock() {
            Ok(rows) => rows.as_ref().is_some_and(|rows| rows.is_open()),
            // It is being kept awake: that it was there a moment ago is all that can be known.
            Err(_) => true,
        }
    }

    /// Keeps the transaction from being ended for idleness while `work` is under way, so that the
    /// server's limit ends only those of a process that froze.
    pub(crate) async fn awake_while<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(limit) = self.idle_limit else { return work.await };
        // What went wrong is in the log.
        beside(work, || Instant::now() + limit / 3, || self.keep_awake()).await
    }

    /// Speaks in the transaction once.
    pub(crate) async fn keep_awake(&self) -> Result<(), StoreError> {
        let mut rows = self.rows.lock().await;
        let Some(open) = rows.as_mut() else { return Err(gone()) };
        let spoken = self.bounded(open.keep_awake()).await;
        if let Err(error) = &spoken {
            // Nothing may be delivered any more: the rows may be somebody else's.
            warn!(error = report(error), "the transaction of a locked batch is lost");
            *rows = None;
        }
        spoken
    }

    /// Writes the answers and ends the transaction; what has no answer stays as it was.
    pub(crate) async fn commit(self, answers: Answers) -> Result<SettledBatch, StoreError> {
        let rows = self.rows.lock().await.take().ok_or_else(gone)?;
        let clean = |answer: &Answer| answer.outcome.clone().with_text(storable);
        let outcomes: Vec<(EventId, Outcome)> =
            answers.iter().map(|(id, answer)| (*id, clean(answer))).collect();
        match self.bounded(rows.commit(&outcomes)).await {
            Ok(()) => {
                let written = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
                Ok(SettledBatch { written, ..SettledBatch::default() })
            }
            Err(error @ (StoreError::Refused(_) | StoreError::Busy(_))) => {
                let reason = report(&error);
                warn!(rows = answers.len(), reason, "a locked batch was refused: settled by holds");
                self.settle_held(answers).await
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn rollback(self) -> Result<(), StoreError> {
        match self.rows.lock().await.take() {
            Some(rows) => self.bounded(rows.rollback()).await,
            // It has been, by the server.
            None => Ok(()),
        }
    }

    /// Settles rows whose transaction the database refused to commit. They are visible as they were;
    /// so they are claimed, which takes others along at most that are put back, and settled as
    /// held ones are: halved, cleaned, and counted in the end. What somebody else was quicker with
    /// is delivered again.
    async fn settle_held(&self, mut answers: Answers) -> Result<SettledBatch, StoreError> {
        let mut settled = SettledBatch::default();
        for suspects in [Suspects::Skip, Suspects::Only] {
            if answers.is_empty() {
                break;
            }
            let until = Deadline::after(self.terms.hold);
            let new = Claim::new(&self.owner, answers.len(), self.terms.hold);
            let claim = Claim { suspects, from: self.oldest, ..new };
            let mut claimed = self.bounded(self.store.claim(&claim)).await?.rows;
            let found: BTreeSet<EventId> = claimed.iter().map(|row| row.id).collect();
            let (ours, rest) =
                answers.into_iter().partition(|(id, _): &(EventId, _)| found.contains(id));
            answers = rest;
            let (store, holds) = (self.store.clone(), Arc::new(Holds::unreleased()));
            let held = HeldRows::new(store, self.terms, holds, &mut claimed, until);
            let mut part = held.settle(ours).await?;
            part.written.retain(|outcome| !outcome.is_released());
            settled.add(part);
        }
        settled.unsettled += answers.len();
        Ok(settled)
    }

    async fn bounded<T>(
        &self,
        asked: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        within(self.terms.limit, asked).await
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the transaction of the batch is lost".into())
}
