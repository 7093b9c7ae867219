//! A store whose answers can be lost.

use std::sync::{Arc, Mutex, PoisonError};

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Append, Holder, Position, Query};
use sendoff_engine::journal::publish::{
    Change, ChangeParked, Cursor, Move, Moved, Parked, ParkedPage, PublishStore, Seen, Survey,
    TriedAgain, Which,
};
use sendoff_engine::journal::{
    AppendError, DecideError, Found, JournalStore, Mark, MemoryJournal, Page, Receipt, TailSource,
};
use sendoff_engine::lead::{Membership, NodeCard};
use sendoff_engine::store::StoreError;
use sendoff_testkit::history::{Fault, FaultKind, LogHistory};
use sendoff_testkit::journal::async_trait;
use tokio::time::Instant;

/// A call that can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    CheckReady,
    Register,
    Take,
    Give,
    Advance,
}

/// Carries every call out, and loses the answers it is told to lose.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shaky {
    store: MemoryJournal,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug, Default)]
struct Script {
    loses: Option<(Call, usize)>,
    history: Option<LogHistory>,
    lost_at: Vec<Instant>,
}

impl Shaky {
    /// From now on so many answers of these calls are lost.
    pub(crate) fn lose(&self, call: Call, answers: usize) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).loses = Some((call, answers));
    }

    /// Writes every loss down, which is why something may come twice.
    pub(crate) fn record(&self, history: &LogHistory) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.history = Some(history.clone());
    }

    /// When answers were lost.
    pub(crate) fn lost_at(&self) -> Vec<Instant> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).lost_at.clone()
    }

    fn answer<T>(&self, call: Call, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut script.loses {
            Some((losing, left)) if *losing == call && *left > 0 => {
                *left -= 1;
                script.lost_at.push(Instant::now());
                if let Some(history) = &script.history {
                    history.fault(&Fault::everywhere(FaultKind::LostReply));
                }
                Err(StoreError::Timeout)
            }
            _ => answer,
        }
    }
}

#[async_trait]
impl JournalStore for Shaky {
    async fn append(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        self.store.append(append).await
    }

    async fn mark(&self, query: &Query) -> Result<Mark, DecideError> {
        self.store.mark(query).await
    }

    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError> {
        self.store.read(query, page).await
    }

    async fn head(&self) -> Result<Position, StoreError> {
        self.store.head().await
    }

    async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        self.store.holders().await
    }

    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError> {
        self.store.tail().await
    }
}

#[async_trait]
impl PublishStore for Shaky {
    async fn check_ready(&self) -> Result<(), StoreError> {
        self.answer(Call::CheckReady, self.store.check_ready().await)
    }

    async fn register(&self, pairs: &[(PairId, Position)]) -> Result<(), StoreError> {
        self.answer(Call::Register, self.store.register(pairs).await)
    }

    async fn join(&self, card: &NodeCard) -> Result<Box<dyn Membership>, StoreError> {
        self.store.join(card).await
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        self.store.survey().await
    }

    async fn take(&self, owner: &str, wanted: &[Seen]) -> Result<Vec<Cursor>, StoreError> {
        self.answer(Call::Take, self.store.take(owner, wanted).await)
    }

    async fn give(&self, owner: &str, pairs: &[(Arc<PairId>, i64)]) -> Result<(), StoreError> {
        self.answer(Call::Give, self.store.give(owner, pairs).await)
    }

    async fn advance(&self, owner: &str, moves: &[Move]) -> Result<Vec<Moved>, StoreError> {
        self.answer(Call::Advance, self.store.advance(owner, moves).await)
    }

    async fn due(&self, owner: &str, each: usize) -> Result<Vec<Parked>, StoreError> {
        self.store.due(owner, each).await
    }

    async fn settle_parked(&self, tried: TriedAgain<'_>) -> Result<bool, StoreError> {
        self.store.settle_parked(tried).await
    }

    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError> {
        self.store.change(which, change).await
    }

    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError> {
        self.store.parked(page).await
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        self.store.change_parked(change).await
    }
}
