//! A store that tells when it has the answer to a commit.
//!
//! The library hands an event over before its `commit` returns, so the caller cannot see that moment.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{AuditNote, EventId, Letter, LetterFate, Pause, PauseScope, Timestamp};
use sendoff_engine::capture::{
    Begin, BeginBlocking, BeginError, Commit, CommitBlocking, CommitError,
};
use sendoff_engine::store::{
    AuditEntry, AuditPage, Born, ChangeLetters, Claim, ClaimStore, Claims, Counts, EventRecord,
    Extended, Held, InspectStore, Lateness, LetterPage, LetterStore, NewRow, PauseStore,
    PayloadWanted, Purge, Purged, RegisterStore, RetainStore, Row, SettleStore, Settled,
    Settlement, StoreError, TopicCounts, WakeStore,
};

use crate::load::Trace;
use crate::order;

/// Does what `store` does.
#[derive(Debug)]
pub(super) struct Timed<S> {
    pub(super) store: S,
    pub(super) trace: Trace,
}

impl<S> Timed<S> {
    fn replied(&self, rows: &[NewRow]) {
        if !self.trace.is_kept() {
            return;
        }
        for number in rows.iter().filter_map(|row| order::number(row.event.payload())) {
            self.trace.replied(number);
        }
    }
}

impl<Conn: Send, S: Begin<Conn> + Sync> Begin<Conn> for Timed<S> {
    type Tx = S::Tx;

    async fn begin(&self, conn: Conn) -> Result<Self::Tx, BeginError> {
        self.store.begin(conn).await
    }
}

impl<Tx: Send, S: Commit<Tx> + Sync> Commit<Tx> for Timed<S> {
    async fn commit(&self, tx: Tx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        let born = self.store.commit(tx, rows).await;
        self.replied(rows);
        born
    }

    async fn rollback(&self, tx: Tx) -> Result<(), CommitError> {
        self.store.rollback(tx).await
    }
}

impl<Conn, S: BeginBlocking<Conn>> BeginBlocking<Conn> for Timed<S> {
    type Tx = S::Tx;

    fn begin_blocking(&self, conn: Conn) -> Result<Self::Tx, BeginError> {
        self.store.begin_blocking(conn)
    }
}

impl<Tx, S: CommitBlocking<Tx>> CommitBlocking<Tx> for Timed<S> {
    fn commit_blocking(&self, tx: Tx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        let born = self.store.commit_blocking(tx, rows);
        self.replied(rows);
        born
    }

    fn rollback_blocking(&self, tx: Tx) -> Result<(), CommitError> {
        self.store.rollback_blocking(tx)
    }
}

#[async_trait]
impl<S: ClaimStore> ClaimStore for Timed<S> {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        self.store.claim(claim).await
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.store.confirm(holds).await
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.store.rescue(longest).await
    }
}

#[async_trait]
impl<S: SettleStore> SettleStore for Timed<S> {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        self.store.settle(batch).await
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        self.store.extend(holds, hold).await
    }
}

#[async_trait]
impl<S: WakeStore> WakeStore for Timed<S> {
    async fn arm(&self) -> Result<bool, StoreError> {
        self.store.arm().await
    }

    async fn disarm(&self) -> Result<(), StoreError> {
        self.store.disarm().await
    }

    async fn rung(&self) {
        self.store.rung().await;
    }
}

impl<S: Send + Sync + 'static> RegisterStore for Timed<S> {}

#[async_trait]
impl<S: PauseStore> PauseStore for Timed<S> {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.store.pauses().await
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.store.pause(scope, note).await
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.store.resume(scope, note).await
    }

    async fn pauses_changed(&self) {
        self.store.pauses_changed().await;
    }
}

#[async_trait]
impl<S: InspectStore> InspectStore for Timed<S> {
    async fn check_ready(&self) -> Result<(), StoreError> {
        self.store.check_ready().await
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        self.store.find(id).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.store.counts().await
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.store.topics().await
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.store.peek(limit).await
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        self.store.lateness().await
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        self.store.first_due().await
    }
}

#[async_trait]
impl<S: RetainStore> RetainStore for Timed<S> {
    fn keeps(&self) -> Option<Duration> {
        self.store.keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.store.purge(purge).await
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.store.purgeable(purge).await
    }
}

#[async_trait]
impl<S: LetterStore> LetterStore for Timed<S> {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        self.store.clock().await
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        self.store.letters(page).await
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        self.store.count_letters(page).await
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        self.store.record(id, payload).await
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        self.store.change_letters(change).await
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        self.store.audit(page).await
    }
}
