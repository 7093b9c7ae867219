//! The store in memory passes the suite, whether it keeps what is done or not.

mod capture;
mod journal;

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Event, EventId, Timestamp};
use sendoff_engine::Clock;
use sendoff_engine::capture::{Begin, Capture, Commit, InsertResult};
use sendoff_engine::memory::{MemoryStore, MemoryTx, RowLock};
use sendoff_engine::store::{Birth, Claim, ClaimStore, NewRow};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::conformance::{
    ClockHarness, ForeignLock, LateWrite, StoreHarness, async_trait,
};
use sendoff_testkit::steps::{commit_on, roll_back_on};

struct InMemory {
    clock: ManualClock,
    store: MemoryStore,
}

impl InMemory {
    fn keeping() -> Self {
        let clock = ManualClock::new();
        Self { store: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
    }

    fn deleting() -> Self {
        let Self { clock, store } = Self::keeping();
        Self { clock, store: store.deleting_when_done() }
    }
}

#[async_trait]
impl StoreHarness for InMemory {
    type Store = MemoryStore;

    fn store(&self) -> &MemoryStore {
        &self.store
    }

    async fn commit(&self, rows: &[NewRow]) -> InsertResult {
        commit_on(&self.store, &self.store, rows).await
    }

    async fn roll_back(&self, rows: &[NewRow]) -> InsertResult {
        roll_back_on(&self.store, &self.store, rows).await
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    async fn write_late(&self, rows: &[NewRow]) -> Option<Box<dyn LateWrite>> {
        let mut tx = self.store.transaction().unwrap();
        self.store.insert(&mut tx, rows).await.unwrap();
        Some(Box::new(Open(tx)))
    }

    async fn lock_row(&self, id: EventId) -> Option<Box<dyn ForeignLock>> {
        self.store.lock_row(id).map(|lock| Box::new(Locked(lock)) as Box<dyn ForeignLock>)
    }
}

#[async_trait]
impl ClockHarness for InMemory {
    async fn step_back(&self, time: Duration) {
        self.clock.step_back(time);
    }
}

struct Open(MemoryTx);

#[async_trait]
impl LateWrite for Open {
    async fn commit(self: Box<Self>) {
        self.0.commit().unwrap();
    }
}

struct Locked(RowLock);

#[async_trait]
impl ForeignLock for Locked {
    async fn release(self: Box<Self>) {
        drop(self.0);
    }
}

mod fair {
    use super::*;

    sendoff_testkit::fair_suite!(InMemory::keeping());
}

mod keeping_what_is_done {
    sendoff_testkit::store_suite!(super::InMemory::keeping());
    sendoff_testkit::order_suite!(super::InMemory::keeping());
}

mod a_clock_that_steps_back {
    sendoff_testkit::clock_suite!(Some(super::InMemory::keeping()));
}

mod deleting_what_is_done {
    sendoff_testkit::store_suite!(super::InMemory::deleting());
    sendoff_testkit::order_suite!(super::InMemory::deleting());
}

#[tokio::test(start_paused = true)]
async fn by_default_the_store_follows_paused_time() {
    let store = MemoryStore::new();
    let delay = Duration::from_secs(30);
    let event = Event::builder("late").delay(delay).json_text("{}").build().unwrap();
    let tx = store.begin(&store).await.unwrap();
    store.commit(tx, &[NewRow { event, birth: Birth::Due }]).await.unwrap();
    let claim = Claim::new("node", 1, delay);
    assert!(store.claim(&claim).await.unwrap().rows.is_empty());
    tokio::time::advance(delay).await;
    assert_eq!(store.claim(&claim).await.unwrap().rows.len(), 1);
}

mod letters {
    use super::InMemory;

    sendoff_testkit::letters_suite!(InMemory::keeping());

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_sweep_ends_while_handlers_still_fail() {
        let harness = InMemory::keeping();
        sendoff_testkit::letters::a_sweep_ends_while_handlers_still_fail(&harness, 2_000).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_sweep_keeps_the_order_of_keys() {
        let harness = InMemory::keeping();
        sendoff_testkit::letters::a_sweep_keeps_the_order_of_keys(&harness, 1_000).await;
    }
}

mod relaying {
    use super::InMemory;

    sendoff_testkit::relay_suite!(InMemory::keeping());
}
