//! A store of somebody else's, which sees nothing but what is public, passes the suite that ours pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sendoff_core::Timestamp;
use sendoff_engine::capture::{Begin, BeginError, Capture, Commit, CommitError, InsertResult};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{
    Born, ClaimStore, Delegates, EndStore, InspectStore, KeyStore, LetterStore, LockStore, NewRow,
    ParkStore, PauseStore, RegisterStore, ReplayStore, RetainStore, SettleStore, WakeStore,
};
use sendoff_engine::{Clock, Outbox};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::conformance::{StoreHarness, async_trait};
use sendoff_testkit::steps::{commit_on, roll_back_on};
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

impl<S: ClaimStore> Delegates<dyn ClaimStore> for Watched<S> {
    fn delegate(&self) -> &dyn ClaimStore {
        self.seen()
    }
}

impl<S: SettleStore> Delegates<dyn SettleStore> for Watched<S> {
    fn delegate(&self) -> &dyn SettleStore {
        self.seen()
    }
}

impl<S: WakeStore> Delegates<dyn WakeStore> for Watched<S> {
    fn delegate(&self) -> &dyn WakeStore {
        self.seen()
    }
}

impl<S: InspectStore> Delegates<dyn InspectStore> for Watched<S> {
    fn delegate(&self) -> &dyn InspectStore {
        self.seen()
    }
}

impl<S: RetainStore> Delegates<dyn RetainStore> for Watched<S> {
    fn delegate(&self) -> &dyn RetainStore {
        self.seen()
    }
}

impl<S: LetterStore> Delegates<dyn LetterStore> for Watched<S> {
    fn delegate(&self) -> &dyn LetterStore {
        self.seen()
    }
}

impl<S: ParkStore> Delegates<dyn ParkStore> for Watched<S> {
    fn delegate(&self) -> &dyn ParkStore {
        self.seen()
    }
}

impl<S: PauseStore> Delegates<dyn PauseStore> for Watched<S> {
    fn delegate(&self) -> &dyn PauseStore {
        self.seen()
    }
}

impl<S: KeyStore> Delegates<dyn KeyStore> for Watched<S> {
    fn delegate(&self) -> &dyn KeyStore {
        self.seen()
    }
}

impl<S: EndStore> Delegates<dyn EndStore> for Watched<S> {
    fn delegate(&self) -> &dyn EndStore {
        self.seen()
    }
}

impl<S: ReplayStore> Delegates<dyn ReplayStore> for Watched<S> {
    fn delegate(&self) -> &dyn ReplayStore {
        self.seen()
    }
}

impl<S: RegisterStore> Delegates<dyn RegisterStore> for Watched<S> {
    fn delegate(&self) -> &dyn RegisterStore {
        self.seen()
    }
}

impl<S: LockStore> Delegates<dyn LockStore> for Watched<S> {
    fn delegate(&self) -> &dyn LockStore {
        self.seen()
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
}

#[async_trait]
impl StoreHarness for Harness {
    type Store = Watched<MemoryStore>;

    fn store(&self) -> &Watched<MemoryStore> {
        &self.store
    }

    async fn commit(&self, rows: &[NewRow]) -> InsertResult {
        commit_on(&self.store, &self.store.store, rows).await
    }

    async fn roll_back(&self, rows: &[NewRow]) -> InsertResult {
        roll_back_on(&self.store, &self.store.store, rows).await
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
    sendoff_testkit::order_suite!(Harness::new());
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
