//! The store in memory, as a handle that all clones share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sendoff_core::order::KeyToken;
use sendoff_core::{EventId, Timestamp};
use tokio::sync::watch;

use super::table::Table;
use super::tx::MemoryTx;
use crate::clock::{Clock, TokioClock};
use crate::store::{HeldKey, Row, StoreError};

/// An outbox's table in memory: the test double for whichever database an application uses.
///
/// Cheap to clone; all clones are one table. Transactions are [`MemoryTx`]: nothing they write is
/// there before their commit, and everything is there after it. They need no runtime, so both the
/// asynchronous and the blocking traits of [`capture`](crate::capture) are there.
///
/// ```
/// use sendoff_core::Event;
/// use sendoff_engine::capture::Capture;
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::store::{Birth, NewRow};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let event = Event::json_text("order.placed", r#"{"total":990}"#)?;
///
/// let mut tx = store.transaction()?;
/// store.insert(&mut tx, &[NewRow { event: event.clone(), birth: Birth::Due }]).await?;
/// assert!(store.rows().is_empty(), "nobody sees it yet");
/// tx.commit()?;
///
/// assert_eq!(store.rows()[0].event.payload(), event.payload());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Counts changes of what is paused.
    repaused: watch::Sender<u64>,
}

struct State {
    table: Table,
    keep: Option<Duration>,
    closed: bool,
}

/// The store was closed; each trait has its own error for it.
#[derive(Debug)]
pub(super) struct Closed;

impl From<Closed> for StoreError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

impl MemoryStore {
    /// An empty table that keeps everything and follows tokio's time, paused or not.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(TokioClock::default()))
    }

    /// An empty table that keeps everything and lives by `clock`.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let state = State { table: Table::default(), keep: Some(Duration::MAX), closed: false };
        let (state, repaused) = (Mutex::new(state), watch::Sender::default());
        Self(Arc::new(Shared { clock, state, repaused }))
    }

    /// Deletes rows when they are done, instead of keeping them.
    #[must_use]
    pub fn deleting_when_done(self) -> Self {
        self.lock().keep = None;
        self
    }

    /// Says that delivered rows are kept this long. Forgetting them is still
    /// [`purge`](crate::store::RetainStore::purge)'s.
    #[must_use]
    pub fn keeping_for(self, keep: Duration) -> Self {
        self.lock().keep = Some(keep);
        self
    }

    /// Opens a transaction, as an application does that commits by itself.
    pub fn transaction(&self) -> Result<MemoryTx, StoreError> {
        self.with(|_, _| ())?;
        Ok(MemoryTx::new(self.clone()))
    }

    /// Every row as it stands, in the order of commits; also of a closed store.
    pub fn rows(&self) -> Vec<Row> {
        self.lock().table.rows()
    }

    /// Makes a row look like one that cannot be decoded; `false` if there is none. Claims return it
    /// as such, and [`rows`](Self::rows) still shows what it was.
    pub fn spoil(&self, id: EventId) -> bool {
        self.lock().table.spoil(id)
    }

    /// Refuses everything from now on. What was committed stays to be looked at.
    pub fn close(&self) {
        self.lock().closed = true;
    }

    /// Tells nodes to look again at what is paused, if that changed.
    pub(super) fn repaused(&self, changed: bool) {
        if changed {
            self.0.repaused.send_modify(|changes| *changes += 1);
        }
    }

    /// Waits until what is paused changes.
    pub(super) async fn until_repaused(&self) {
        // The sender is ours, and so it is there.
        let _ = self.0.repaused.subscribe().changed().await;
    }

    pub(super) fn keep(&self) -> Option<Duration> {
        self.lock().keep
    }

    /// The rows that are still owed, the earliest due first; also of a closed store.
    pub fn pending(&self) -> Vec<EventId> {
        self.lock().table.pending()
    }

    /// Whether a transaction has locked this row.
    pub fn is_locked(&self, id: EventId) -> bool {
        self.lock().table.is_locked(id)
    }

    /// Whether a key is held by this very hold of its owner's.
    pub fn holds_key(&self, owner: &str, held: &HeldKey) -> bool {
        self.token_of_key(owner, &held.key) == Some(held.token)
    }

    /// The token that a key is held by, if it is by this owner.
    pub fn token_of_key(&self, owner: &str, key: &str) -> Option<KeyToken> {
        self.lock().table.token_of_key(owner, key)
    }

    /// Ends what a transaction locked; also of a closed store.
    pub(super) fn unlock(&self, ids: &[EventId]) {
        let now = self.0.clock.now();
        self.lock().table.unlock(ids, now);
    }

    /// Ends that a transaction saw something; also of a closed store.
    pub(super) fn see_not(&self, seen: &(String, EventId)) {
        self.lock().table.seeing.remove(seen);
    }

    /// One statement: the table and the time, which stands still under the lock.
    pub(super) fn with<T>(
        &self,
        statement: impl FnOnce(&mut Table, Timestamp) -> T,
    ) -> Result<T, Closed> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed);
        }
        let now = self.0.clock.now();
        Ok(statement(&mut state.table, now))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Statements do not panic half-way; a clock that did has not touched the table.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("clock", &self.0.clock)
            .field("counts", &self.lock().table.counts())
            .finish_non_exhaustive()
    }
}
