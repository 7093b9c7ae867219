use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::EventId;
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{
    Claim, ClaimStore, Claimed, Counts, Extended, Held, InspectStore, Lock, LockStore, LockedRows,
    Purge, Purged, RetainStore, Row, SettleStore, Settled, Settlement, StoreError, TopicCounts,
    WakeStore,
};

/// A store in memory whose statements fail when told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flaky {
    pub(crate) table: MemoryStore,
    troubles: Arc<Troubles>,
}

#[derive(Debug, Default)]
struct Troubles {
    claims: AtomicUsize,
    settlements: AtomicUsize,
    batches: AtomicUsize,
    purges: AtomicIsize,
    down: AtomicBool,
    refuses: std::sync::Mutex<Option<EventId>>,
    panics: std::sync::Mutex<Vec<&'static str>>,
}

impl Flaky {
    /// Nothing is answered, or everything again.
    pub(crate) fn set_down(&self, down: bool) {
        self.troubles.down.store(down, Ordering::SeqCst);
    }

    /// The next statement of each of these kinds panics, as a mistake of ours would.
    pub(crate) fn panic_once(&self, statements: &[&'static str]) {
        self.troubles.panics.lock().unwrap().extend(statements);
    }

    fn step(&self, statement: &str) {
        let mut panics = self.troubles.panics.lock().unwrap();
        if let Some(at) = panics.iter().position(|panics| *panics == statement) {
            panics.remove(at);
            drop(panics);
            std::panic::panic_any("told to");
        }
    }

    fn check_up(&self) -> Result<(), StoreError> {
        if self.troubles.down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to be down".into()));
        }
        Ok(())
    }

    /// The next claims fail.
    pub(crate) fn fail_claims(&self, count: usize) {
        self.troubles.claims.store(count, Ordering::SeqCst);
    }

    /// The next settlements fail.
    pub(crate) fn fail_settlements(&self, count: usize) {
        self.troubles.settlements.store(count, Ordering::SeqCst);
    }

    /// Goes down after so many purges.
    pub(crate) fn down_after_purges(&self, count: isize) {
        self.troubles.purges.store(count, Ordering::SeqCst);
    }

    /// Every batch with this event is refused for good.
    pub(crate) fn refuse(&self, id: EventId) {
        *self.troubles.refuses.lock().unwrap() = Some(id);
    }

    /// Settlement statements that were carried out.
    pub(crate) fn batches(&self) -> usize {
        self.troubles.batches.load(Ordering::SeqCst)
    }
}

fn strike(counter: &AtomicUsize) -> Result<(), StoreError> {
    let less = |left: usize| left.checked_sub(1);
    match counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
        Ok(_) => Err(StoreError::Unavailable("told to fail".into())),
        Err(_) => Ok(()),
    }
}

#[async_trait]
impl ClaimStore for Flaky {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Vec<Claimed>, StoreError> {
        self.step("claim");
        self.check_up()?;
        strike(&self.troubles.claims)?;
        self.table.claim(claim).await
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.step("confirm");
        self.table.confirm(holds).await
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.table.rescue(longest).await
    }
}

#[async_trait]
impl SettleStore for Flaky {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        self.step("settle");
        self.check_up()?;
        strike(&self.troubles.settlements)?;
        let refused = *self.troubles.refuses.lock().unwrap();
        if batch.iter().any(|settlement| Some(settlement.held.id) == refused) {
            return Err(StoreError::Refused("told to refuse".into()));
        }
        self.troubles.batches.fetch_add(1, Ordering::SeqCst);
        self.table.settle(batch).await
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        self.check_up()?;
        self.table.extend(holds, hold).await
    }
}

#[async_trait]
impl InspectStore for Flaky {
    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        self.table.find(id).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.table.counts().await
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.table.topics().await
    }

    async fn oldest_lag(&self) -> Result<Duration, StoreError> {
        self.table.oldest_lag().await
    }
}

impl WakeStore for Flaky {}

#[async_trait]
impl LockStore for Flaky {
    async fn lock(&self, lock: &Lock) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        self.check_up()?;
        strike(&self.troubles.claims)?;
        self.table.lock(lock).await
    }
}

#[async_trait]
impl RetainStore for Flaky {
    fn keeps(&self) -> Option<Duration> {
        self.table.keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_up()?;
        let purged = self.table.purge(purge).await?;
        if self.troubles.purges.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.set_down(true);
        }
        Ok(purged)
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.table.purgeable(purge).await
    }
}
