use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::limits;
use tokio::time::{Instant, timeout};

use super::Holds;
use crate::lock::lock;
use crate::store::{ClaimStore, Held, HeldBy, StoreError};

/// Claims that were not answered.
///
/// The database may have carried them out, then or later: rows are held in this node's name, and nobody
/// here knows of them. So what this node holds is asked for, as soon as the database answers again and a
/// few times after that, and what is known to nobody is given back.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<Option<Lost>>);

#[derive(Debug, Clone, Copy)]
struct Lost {
    /// When the last such claim was given up.
    at: Instant,
    /// When to ask.
    ask_at: Instant,
}

/// Whose they are.
pub(crate) struct Whose<'a> {
    pub(crate) owner: &'a str,
    pub(crate) hold: Duration,
    /// How long rows are held that this node writes.
    pub(crate) birth: Duration,
    /// How long a statement may take.
    pub(crate) limit: Duration,
}

impl Strays {
    /// To be called before a claim is sent. Unless it [is answered](Sent::answered), its rows may be
    /// strays: also where nobody waits for it any more.
    pub(crate) fn sent<'s, S: ClaimStore + ?Sized>(&'s self, store: &'s S) -> Sent<'s, S> {
        Sent { strays: self, store, epoch: store.epoch(), is_lost: true }
    }

    /// How long until it is worth asking; nothing where no claim was lost.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let lost = *lock(&self.0);
        lost.map(|lost| lost.ask_at.saturating_duration_since(Instant::now()))
    }

    /// Rows that are held in this node's name and known to nobody here, if it is time to ask.
    pub(crate) async fn find<S: ClaimStore + ?Sized>(
        &self,
        store: &S,
        holds: &Holds,
        whose: &Whose<'_>,
    ) -> Result<Vec<Held>, StoreError> {
        if self.due_in() != Some(Duration::ZERO) {
            return Ok(Vec::new());
        }
        let asked = Instant::now();
        let Whose { owner, hold, birth, limit } = *whose;
        // However many are known, there is room for a whole claim of others.
        let limit_rows = holds.len() + limits::BATCH_ROWS;
        let held_by = HeldBy { owner, hold, born: birth, limit: limit_rows };
        let held = timeout(limit, store.held_by(&held_by)).await;
        let mut held = held.unwrap_or(Err(StoreError::Timeout))?;
        // A claim that is under way has rows that are not known yet.
        let looks = holds.looks.over(holds.looks.mark());
        if timeout(limit, looks).await.is_err() {
            return Ok(Vec::new());
        }
        held.retain(|held| !holds.is_here(held.id));
        self.asked(asked, hold);
        Ok(held)
    }

    /// One that is carried out late holds its rows late: so once more, until the last of them is over.
    fn asked(&self, at: Instant, hold: Duration) {
        let mut state = lock(&self.0);
        *state = state.filter(|lost| at.duration_since(lost.at) < hold).map(|lost| {
            // A claim that was lost meanwhile is asked for at once.
            let ask_at = if lost.at > at { lost.ask_at } else { at + hold / 6 };
            Lost { ask_at, ..lost }
        });
    }
}

/// A claim that is under way.
#[must_use = "dropped, its answer is lost"]
pub(crate) struct Sent<'s, S: ClaimStore + ?Sized> {
    strays: &'s Strays,
    store: &'s S,
    epoch: u64,
    is_lost: bool,
}

impl<S: ClaimStore + ?Sized> Sent<'_, S> {
    /// What the database said. A store that lost a link meanwhile may have sent the claim twice.
    pub(crate) fn answered<T>(mut self, answer: &Result<T, StoreError>) {
        let unknown = matches!(answer, Err(StoreError::Unavailable(_) | StoreError::Timeout));
        self.is_lost = unknown || self.store.epoch() != self.epoch;
    }
}

impl<S: ClaimStore + ?Sized> Drop for Sent<'_, S> {
    fn drop(&mut self) {
        if self.is_lost {
            let now = Instant::now();
            *lock(&self.strays.0) = Some(Lost { at: now, ask_at: now });
        }
    }
}
