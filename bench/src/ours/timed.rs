//! A store that tells when it has the answer to a commit.
//!
//! The library hands an event over before its `commit` returns, so the caller cannot see that moment.

use sendoff_engine::capture::{
    Begin, BeginBlocking, BeginError, Commit, CommitBlocking, CommitError,
};
use sendoff_engine::store::{
    Born, ClaimStore, Delegates, EndStore, InspectStore, KeyStore, LetterStore, NewRow, ParkStore,
    PauseStore, RegisterStore, ReplayStore, RetainStore, SettleStore, WakeStore,
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

impl<S: ClaimStore> Delegates<dyn ClaimStore> for Timed<S> {
    fn delegate(&self) -> &dyn ClaimStore {
        &self.store
    }
}

impl<S: SettleStore> Delegates<dyn SettleStore> for Timed<S> {
    fn delegate(&self) -> &dyn SettleStore {
        &self.store
    }
}

impl<S: WakeStore> Delegates<dyn WakeStore> for Timed<S> {
    fn delegate(&self) -> &dyn WakeStore {
        &self.store
    }
}

impl<S: EndStore> Delegates<dyn EndStore> for Timed<S> {
    fn delegate(&self) -> &dyn EndStore {
        &self.store
    }
}

impl<S: ReplayStore> Delegates<dyn ReplayStore> for Timed<S> {
    fn delegate(&self) -> &dyn ReplayStore {
        &self.store
    }
}

impl<S: Send + Sync + 'static> RegisterStore for Timed<S> {}

impl<S: KeyStore> Delegates<dyn KeyStore> for Timed<S> {
    fn delegate(&self) -> &dyn KeyStore {
        &self.store
    }
}

impl<S: ParkStore> Delegates<dyn ParkStore> for Timed<S> {
    fn delegate(&self) -> &dyn ParkStore {
        &self.store
    }
}

impl<S: PauseStore> Delegates<dyn PauseStore> for Timed<S> {
    fn delegate(&self) -> &dyn PauseStore {
        &self.store
    }
}

impl<S: InspectStore> Delegates<dyn InspectStore> for Timed<S> {
    fn delegate(&self) -> &dyn InspectStore {
        &self.store
    }
}

impl<S: RetainStore> Delegates<dyn RetainStore> for Timed<S> {
    fn delegate(&self) -> &dyn RetainStore {
        &self.store
    }
}

impl<S: LetterStore> Delegates<dyn LetterStore> for Timed<S> {
    fn delegate(&self) -> &dyn LetterStore {
        &self.store
    }
}
