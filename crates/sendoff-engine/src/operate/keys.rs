//! The keys of an outbox's events: how they stand, and letting those go on that are parked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::order::{KeyFate, KeyStanding, check_key};
use sendoff_core::{AuditNote, EventId, InvalidEvent, LetterCount, limits};
use tokio::time::sleep;
use tracing::info;

use super::letters::{AGAIN, ANSWER};
use crate::store::{KeyPage, ParkStore, ResumeKey, StoreError, within};

/// The keys of an outbox's events, wherever its nodes run. Cheap to clone.
///
/// A dead event [parks](sendoff_core::order::AfterDead) its key: the later events of the key wait until somebody
/// decides. Requeueing or discarding the dead one, as [`DeadLetters`](crate::DeadLetters) do, keeps the order.
/// [`resume`](Self::resume) lets the key go on without it.
///
/// ```
/// use std::sync::Arc;
/// use sendoff_core::AuditNote;
/// use sendoff_core::order::{KeyFate, KeyState};
/// use sendoff_engine::OrderKeys;
/// use sendoff_engine::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let keys = OrderKeys::new(Arc::new(MemoryStore::new())); // or `outbox.keys()`
/// for key in keys.parked(None, 100).await?.keys {
///     println!("{} waits with {} events: {:?}", key.key, key.events, key.parking());
/// }
/// assert_eq!(keys.show("order:4711").await?.state, KeyState::Idle);
///
/// let note = AuditNote::new("ada", "the order was mended by hand")?;
/// assert_eq!(keys.resume("order:4711", None, &note).await?, KeyFate::NotParked);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OrderKeys {
    store: Arc<dyn ParkStore>,
    answer: Duration,
}

/// Why keys could not be seen or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// No event can have such a key.
    #[error(transparent)]
    Key(#[from] InvalidEvent),
    /// The database did not do it. Where it did not answer in time, it may have been done all the same:
    /// then the audit says so.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A part of the parked keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedKeys {
    /// Them, in the order of their bytes.
    pub keys: Vec<KeyStanding>,
    /// After which one the next page begins; `None` at the end.
    pub next: Option<String>,
}

impl OrderKeys {
    /// The keys of a store.
    pub fn new(store: Arc<dyn ParkStore>) -> Self {
        Self { store, answer: ANSWER }
    }

    /// How long each answer of the database is waited for; 30 s if nothing is said.
    #[must_use]
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answer = limit;
        self
    }

    /// A page of parked keys: up to `limit`, and no more than [`KEYS`](limits::KEYS). Pages are continued
    /// after the last key, so that those that come and go between two pages neither repeat nor hide any other.
    pub async fn parked(&self, after: Option<&str>, limit: usize) -> Result<ParkedKeys, KeysError> {
        after.map_or(Ok(()), check_key)?;
        let limit = limit.clamp(1, limits::KEYS);
        // One more, which says whether there is another page.
        let page = KeyPage { after, limit: limit + 1 };
        let mut keys = within(self.answer, self.store.parked_keys(&page)).await?;
        let more = keys.len() > limit;
        keys.truncate(limit);
        let next = keys.last().filter(|_| more).map(|key| key.key.clone());
        // One may have gone on since it was found.
        keys.retain(|key| key.parking().is_some());
        Ok(ParkedKeys { keys, next })
    }

    /// How many keys are parked, counted up to [ten thousand](limits::PARKED_KEYS).
    pub async fn count_parked(&self) -> Result<LetterCount, KeysError> {
        let most = limits::PARKED_KEYS;
        let found = within(self.answer, self.store.count_parked(most + 1)).await?;
        Ok(LetterCount::found(found, most as u64))
    }

    /// How a key stands: whether it is parked, held, waits for a time or is in line, what waits in it, and why.
    /// A key that nobody ever wrote is [idle](sendoff_core::order::KeyState::Idle).
    pub async fn show(&self, key: &str) -> Result<KeyStanding, KeysError> {
        check_key(key)?;
        Ok(within(self.answer, self.store.key_standing(key)).await?)
    }

    /// Lets a parked key go on without the dead event that parks it. That stays dead, and can be requeued or
    /// discarded later; requeued, it comes after whatever overtook it.
    ///
    /// Only if `event` parks it, where one is named, which is what somebody has looked at before: another one
    /// may have died since.
    pub async fn resume(
        &self,
        key: &str,
        event: Option<EventId>,
        note: &AuditNote,
    ) -> Result<KeyFate, KeysError> {
        check_key(key)?;
        let resume = ResumeKey { key, event, note };
        let mut fate = within(self.answer, self.store.resume_key(&resume)).await?;
        for pause in AGAIN {
            if fate != KeyFate::Busy {
                break;
            }
            // Somebody who was about to do the same has done it by then.
            sleep(pause).await;
            fate = within(self.answer, self.store.resume_key(&resume)).await?;
        }
        if let KeyFate::Resumed { event } = fate {
            info!(key, event.id = %event, actor = note.actor(), "an operator let a parked key go on");
        }
        Ok(fate)
    }
}

impl fmt::Debug for OrderKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderKeys").field("answer", &self.answer).finish_non_exhaustive()
    }
}
