//! Waiting until a pair has passed everything that was appended before.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::{Position, Query};
use tokio::time::{Instant, timeout_at};

use super::store::{Cursor, PublishStore};
use crate::journal::handle::Journal;
use crate::journal::store::Page;
use crate::operate::{AwaitError, LookTimes, SharedAnswer, Together, answered, passed};

/// The cursors of all pairs, for all who wait for one.
pub(in crate::journal) type Surveys = Together<(), SharedAnswer<Vec<Cursor>>>;

/// Whether a pair has passed everything that was appended before somebody asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairCaughtUp {
    /// It has.
    Yes,
    /// It has not yet.
    TimedOut {
        /// Where it was last seen, with its status and what it waits at; none where the database did not answer.
        cursor: Option<Box<Cursor>>,
    },
    /// There is no such pair: no node has ever published for it.
    NoSuchPair,
}

impl PairCaughtUp {
    /// Whether it has.
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }
}

impl<S: PublishStore> Journal<S> {
    /// Waits until a pair of topic and publisher has passed every fact that was committed before this call, on
    /// whichever node it is worked: a barrier for tests and deploys.
    ///
    /// Passed means published, parked or not for it. A fact that is parked is no reason to wait; a pair that
    /// is paused, has failed or waits at a fact is. Cursors are stored after what they passed was published, and
    /// up to five seconds later where nothing of it was for the pair.
    ///
    /// The cursors are looked at at once, after 50 ms, and then less and less often, up to once a second, for
    /// all who wait with this journal together. Cancel-safe. It may answer a second late.
    ///
    /// # Errors
    ///
    /// [`Store`](AwaitError::Store) where the database refuses. One that is unavailable is asked again.
    pub async fn caught_up(
        &self,
        topic: &str,
        publisher: &str,
        timeout: Duration,
    ) -> Result<PairCaughtUp, AwaitError> {
        let mut looks = LookTimes::within(timeout);
        let (mut head, mut cursor) = (None, None);
        loop {
            let until = looks.answer_by();
            if head.is_none() {
                head = answered(until, self.head()).await?;
            }
            if let (Some(head), Some(cursors)) = (head, self.surveyed(until).await?) {
                let pair = |cursor: &&Cursor| {
                    cursor.pair.topic() == topic && cursor.pair.publisher() == publisher
                };
                let Some(found) = cursors.iter().find(pair) else {
                    return Ok(PairCaughtUp::NoSuchPair);
                };
                if self.has_passed(found.position, head, until).await? {
                    return Ok(PairCaughtUp::Yes);
                }
                cursor = Some(Box::new(found.clone()));
            }
            if !looks.sleep().await {
                return Ok(PairCaughtUp::TimedOut { cursor });
            }
        }
    }

    /// Whether nothing lies between a cursor and a head. That may be a number which nobody will ever commit, and
    /// then no cursor comes to it.
    async fn has_passed(
        &self,
        cursor: Position,
        head: Position,
        until: Instant,
    ) -> Result<bool, AwaitError> {
        if cursor >= head {
            return Ok(true);
        }
        let (all, page) = (Query::all(), Page::first(cursor, head));
        let found = answered(until, self.bounded(self.store().read(&all, page))).await?;
        Ok(found.is_some_and(|found| found.facts.is_empty()))
    }

    /// Where all pairs are, by a look that begins after this call; `None` without an answer.
    async fn surveyed(&self, until: Instant) -> Result<Option<Arc<Vec<Cursor>>>, AwaitError> {
        let journal = self.clone();
        let ask = |_| async move {
            let survey = journal.bounded(journal.store().survey()).await;
            survey.map(|survey| Arc::new(survey.cursors)).map_err(Arc::new)
        };
        passed(timeout_at(until, self.surveys().ask([()], ask)).await)
    }
}
