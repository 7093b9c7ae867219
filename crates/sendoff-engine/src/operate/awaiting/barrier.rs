//! Waiting until everything is over that was committed before.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::EventId;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{ANSWER, AwaitError, LookTimes, Waiter, Waiters, answered, end_of, passed};
use crate::store::{Horizon, within};

/// Rows that are waited for at one time; then it is looked which others there are.
const ROWS: usize = 100;
/// So many times as long as a look at the backlog took, none is made.
const REST: u32 = 4;

/// Whether everything is over that was committed before somebody asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaughtUp {
    /// It is.
    Yes,
    /// It is not yet.
    TimedOut {
        /// Some of the events that are not over, a hundred at most; none where the database did not answer.
        pending: Vec<EventId>,
    },
}

impl CaughtUp {
    /// Whether it is.
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }
}

impl Waiters {
    /// Waits until everything is over that was committed before this call.
    pub(crate) async fn caught_up(&self, timeout: Duration) -> Result<CaughtUp, AwaitError> {
        let mut looks = LookTimes::within(timeout);
        let horizon = loop {
            match self.horizon(looks.answer_by()).await?.map(|horizon| *horizon) {
                Some(None) => return Ok(CaughtUp::Yes),
                Some(Some(horizon)) => break horizon,
                None if !looks.sleep().await => return Ok(CaughtUp::timed_out(&[])),
                None => {}
            }
        };
        loop {
            let (begun, last) = (Instant::now(), looks.is_over());
            let look = within(ANSWER, self.store.pending_within(horizon, ROWS));
            let mut watched = match answered(looks.answer_by(), look).await? {
                Some(pending) if pending.is_empty() => return Ok(CaughtUp::Yes),
                Some(pending) => self.enter_all(&pending)?,
                None if last || !looks.sleep().await => return Ok(CaughtUp::timed_out(&[])),
                None => continue,
            };
            let rested = Instant::now() + begun.elapsed() * REST;
            looks.soon();
            if last || !self.until_over(&mut watched, &mut looks).await? {
                return Ok(CaughtUp::timed_out(&watched));
            }
            // A long backlog is not looked through again and again without a pause.
            sleep_until(rested.min(looks.deadline)).await;
        }
    }

    /// Waits until none of these is pending; false where the time was over before that.
    async fn until_over(
        &self,
        watched: &mut Vec<Waiter<'_>>,
        looks: &mut LookTimes,
    ) -> Result<bool, AwaitError> {
        while !watched.is_empty() {
            let all_told = async {
                for waiter in &mut *watched {
                    waiter.end().await;
                }
            };
            tokio::select! {
                biased;
                () = all_told => return Ok(true),
                more = looks.sleep() => if !more { return Ok(false) },
            }
            let ids: Vec<EventId> = watched.iter().map(|waiter| waiter.id).collect();
            if let Some(found) = self.look(ids, looks.answer_by()).await? {
                // What is gone is over.
                watched.retain(|waiter| found.get(&waiter.id).is_some_and(|s| end_of(s).is_none()));
            }
        }
        Ok(true)
    }

    /// Up to where rows are committed, by a look that begins after this call; `None` without an answer.
    async fn horizon(&self, until: Instant) -> Result<Option<Arc<Option<Horizon>>>, AwaitError> {
        let store = Arc::clone(&self.store);
        let ask = |_| async move {
            let horizon = within(ANSWER, store.horizon()).await;
            horizon.map(Arc::new).map_err(Arc::new)
        };
        passed(timeout_at(until, self.horizons.ask([()], ask)).await)
    }
}

impl CaughtUp {
    fn timed_out(watched: &[Waiter<'_>]) -> Self {
        Self::TimedOut { pending: watched.iter().map(|waiter| waiter.id).collect() }
    }
}
