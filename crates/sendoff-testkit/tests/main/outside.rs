//! A store of somebody else's, which sees nothing but what is public, passes the suite that ours pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{AuditNote, EventId, Letter, LetterFate, Pause, PauseScope, Timestamp};
use sendoff_engine::capture::{
    Begin, BeginError, Capture, Commit, CommitError, InsertResult, WriteError,
};
use sendoff_engine::memory::{MemoryStore, MemoryTx};
use sendoff_engine::store::{
    AuditEntry, AuditPage, Born, ChangeLetters, Claim, ClaimStore, Claims, Counts, EventKind,
    EventRecord, Extended, Held, InspectStore, Lateness, LetterPage, LetterStore, Lock, LockStore,
    LockedRows, NewRow, OutboxStore, PauseStore, PayloadWanted, Purge, Purged, RegisterStore,
    Registered, RetainStore, Row, SettleStore, Settled, Settlement, StoreError, TopicCounts,
    WakeStore,
};
use sendoff_engine::{Clock, Outbox};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::conformance::StoreHarness;
use sendoff_testkit::wait::eventually;

/// Counts what another store is asked: what a cache, an audit or a store for several tenants begins as.
#[derive(Clone)]
struct Watched<S> {
    store: S,
    asked: Arc<AtomicU64>,
}

impl<S> Watched<S> {
    fn over(store: S) -> Self {
        Self { store, asked: Arc::default() }
    }

    fn seen(&self) -> &S {
        self.asked.fetch_add(1, Ordering::Relaxed);
        &self.store
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> ClaimStore for Watched<S> {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        self.seen().claim(claim).await
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.seen().confirm(holds).await
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.seen().rescue(longest).await
    }

    fn epoch(&self) -> u64 {
        self.seen().epoch()
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> SettleStore for Watched<S> {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        self.seen().settle(batch).await
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        self.seen().extend(holds, hold).await
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> WakeStore for Watched<S> {
    async fn arm(&self) -> Result<bool, StoreError> {
        self.seen().arm().await
    }

    async fn disarm(&self) -> Result<(), StoreError> {
        self.seen().disarm().await
    }

    async fn rung(&self) {
        self.seen().rung().await
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> InspectStore for Watched<S> {
    async fn check_ready(&self) -> Result<(), StoreError> {
        self.seen().check_ready().await
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        self.seen().find(id).await
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.seen().peek(limit).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.seen().counts().await
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.seen().topics().await
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        self.seen().lateness().await
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        self.seen().first_due().await
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> RetainStore for Watched<S> {
    fn keeps(&self) -> Option<Duration> {
        self.seen().keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.seen().purge(purge).await
    }

    async fn fold(&self) -> Result<u64, StoreError> {
        self.seen().fold().await
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.seen().purgeable(purge).await
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> LetterStore for Watched<S> {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        self.seen().clock().await
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        self.seen().letters(page).await
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        self.seen().count_letters(page).await
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        self.seen().record(id, payload).await
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        self.seen().change_letters(change).await
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        self.seen().audit(page).await
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> PauseStore for Watched<S> {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.seen().pauses().await
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.seen().pause(scope, note).await
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.seen().resume(scope, note).await
    }

    async fn pauses_changed(&self) {
        self.seen().pauses_changed().await
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> RegisterStore for Watched<S> {
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        self.seen().register(kinds, lately).await
    }
}

#[async_trait]
impl<S: OutboxStore + LockStore> LockStore for Watched<S> {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        self.seen().lock(lock).await
    }
}

/// Transactions are those of the store within.
impl<S: Capture<Tx> + Sync, Tx: Send> Capture<Tx> for Watched<S> {
    async fn insert(&self, tx: &mut Tx, rows: &[NewRow]) -> InsertResult {
        self.seen().insert(tx, rows).await
    }
}

impl<S: Begin<Conn> + Sync, Conn: Send> Begin<Conn> for Watched<S> {
    type Tx = S::Tx;

    async fn begin(&self, conn: Conn) -> Result<S::Tx, BeginError> {
        self.seen().begin(conn).await
    }
}

impl<S: Commit<Tx> + Sync, Tx: Send> Commit<Tx> for Watched<S> {
    async fn commit(&self, tx: Tx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        self.seen().commit(tx, rows).await
    }

    async fn rollback(&self, tx: Tx) -> Result<(), CommitError> {
        self.seen().rollback(tx).await
    }
}

struct Harness {
    clock: ManualClock,
    store: Watched<MemoryStore>,
}

impl Harness {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::with_clock(Arc::new(clock.clone()));
        Self { clock, store: Watched::over(store) }
    }

    async fn begin(&self) -> Result<MemoryTx, WriteError> {
        let begun = self.store.begin(&self.store.store).await;
        begun.map_err(|error| WriteError::Driver(error.into()))
    }
}

#[async_trait]
impl StoreHarness for Harness {
    type Store = Watched<MemoryStore>;

    fn store(&self) -> &Watched<MemoryStore> {
        &self.store
    }

    async fn commit(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        let tx = self.begin().await?;
        self.store.commit(tx, rows).await.map_err(|error| match error {
            CommitError::Refused(refused) => refused,
            other => WriteError::Driver(other.into()),
        })
    }

    async fn roll_back(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        let mut tx = self.begin().await?;
        let born = self.store.insert(&mut tx, rows).await?;
        self.store.rollback(tx).await.map_err(|error| WriteError::Driver(error.into()))?;
        Ok(born)
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

/// Holds S11: case by case.
mod suite {
    use super::*;

    sendoff_testkit::store_suite!(Harness::new());
}

/// Holds S11: an outbox works on it, from the guard to the handler.
#[tokio::test]
async fn an_outbox_works_on_a_store_of_somebody_else_s() {
    let memory = MemoryStore::new();
    let store = Watched::over(memory.clone());
    let outbox = Outbox::builder(store.clone())
        .on("order.placed", |_: sendoff_core::Delivery| async { Ok(()) })
        .start()
        .await
        .unwrap();
    let mut tx = outbox.begin(&memory).await.unwrap();
    tx.emit(("order.placed", r#"{"order":4711}"#)).unwrap();
    tx.commit().await.unwrap();
    eventually("it is delivered", async || store.counts().await.unwrap().done == 1).await;
    outbox.close().await;
    assert!(store.asked.load(Ordering::Relaxed) > 2, "all of it went through the store");
}
