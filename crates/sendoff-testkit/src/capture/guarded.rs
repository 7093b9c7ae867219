//! Transactions of `begin`, as the capture suite uses them.

use async_trait::async_trait;
use sendoff_core::{BoxError, Event, EventId};
use sendoff_engine::capture::{
    Begin, Commit, CommitError, Join, OutboxSavepoint, OutboxTx, Release, WriteError,
};
use sendoff_engine::store::NewRow;
use sendoff_engine::{Inbox, OnceError};

use super::harness::{Begun, Hook, Inserted, Open, OutboxHarness, Speaks, StoreOf, Transaction};

/// Commits rows as a guard does.
pub async fn commit_rows<S, Conn>(store: &S, conn: Conn, rows: &[NewRow]) -> Inserted
where
    S: Begin<Conn> + Commit<<S as Begin<Conn>>::Tx>,
{
    let tx = store.begin(conn).await?;
    Ok(store.commit(tx, rows).await?)
}

/// How a savepoint is set in a guard of this transaction.
pub trait Guards<Tx>: Speaks<Tx> {
    /// Sets it: `Ok(Nested::<Self, _>::open(tx.savepoint().await?))`.
    async fn savepoint<'t>(tx: &'t mut OutboxTx<'_, StoreOf<Self>, Tx>) -> Begun<'t>;
}

/// How a savepoint is set in another.
pub trait Nests<Tx>: Speaks<Tx> {
    /// Sets it: `Ok(Nested::<Self, _>::open(tx.savepoint().await?))`.
    async fn deeper<'t>(tx: &'t mut OutboxSavepoint<'_, StoreOf<Self>, Tx>) -> Begun<'t>;
}

/// A guard, for the suite.
#[derive(Debug)]
pub struct Guarded<'o, H: OutboxHarness, Tx>(OutboxTx<'o, StoreOf<H>, Tx>);

impl<'o, H, Tx> Guarded<'o, H, Tx>
where
    H: Guards<Tx> + 'o,
    StoreOf<H>: Commit<Tx> + Join<Tx>,
    Tx: 'o,
{
    /// Takes it.
    pub fn open(guard: OutboxTx<'o, StoreOf<H>, Tx>) -> Open<'o> {
        Box::new(Self(guard))
    }
}

#[async_trait(?Send)]
impl<H, Tx> Transaction for Guarded<'_, H, Tx>
where
    H: Guards<Tx>,
    StoreOf<H>: Commit<Tx> + Join<Tx>,
{
    async fn write(&mut self, events: &[Event]) -> Result<Vec<EventId>, WriteError> {
        events.iter().map(|event| self.0.emit(event)).collect()
    }

    async fn once(&mut self, consumer: &str, id: EventId) -> Result<bool, OnceError> {
        Inbox::new(self.0.store().clone()).once(&mut *self.0, consumer, id).await
    }

    async fn sql(&mut self, text: &str) -> Result<(), BoxError> {
        <H as Speaks<Tx>>::sql(&mut self.0, text).await
    }

    async fn savepoint(&mut self) -> Begun<'_> {
        H::savepoint(&mut self.0).await
    }

    async fn commit(self: Box<Self>) -> Result<(), CommitError> {
        self.0.commit().await
    }

    async fn rollback(self: Box<Self>) -> Result<(), CommitError> {
        self.0.rollback().await
    }

    fn after(&mut self, committed: Hook, rolled_back: Hook) {
        self.0.after_commit(committed);
        self.0.after_rollback(rolled_back);
    }
}

/// A savepoint of a guard, for the suite.
#[derive(Debug)]
pub struct Nested<'t, H: OutboxHarness, Tx>(OutboxSavepoint<'t, StoreOf<H>, Tx>);

impl<'t, H, Tx> Nested<'t, H, Tx>
where
    H: Nests<Tx> + 't,
    StoreOf<H>: Release<'t, Tx> + Join<Tx>,
    Tx: 't,
{
    /// Takes it.
    pub fn open(savepoint: OutboxSavepoint<'t, StoreOf<H>, Tx>) -> Open<'t> {
        Box::new(Self(savepoint))
    }
}

#[async_trait(?Send)]
impl<'t, H, Tx> Transaction for Nested<'t, H, Tx>
where
    H: Nests<Tx>,
    StoreOf<H>: Release<'t, Tx> + Join<Tx>,
{
    async fn write(&mut self, events: &[Event]) -> Result<Vec<EventId>, WriteError> {
        events.iter().map(|event| self.0.emit(event)).collect()
    }

    async fn once(&mut self, consumer: &str, id: EventId) -> Result<bool, OnceError> {
        Inbox::new(self.0.store().clone()).once(&mut *self.0, consumer, id).await
    }

    async fn sql(&mut self, text: &str) -> Result<(), BoxError> {
        <H as Speaks<Tx>>::sql(&mut self.0, text).await
    }

    async fn savepoint(&mut self) -> Begun<'_> {
        H::deeper(&mut self.0).await
    }

    async fn commit(self: Box<Self>) -> Result<(), CommitError> {
        self.0.release().await
    }

    async fn rollback(self: Box<Self>) -> Result<(), CommitError> {
        self.0.rollback().await
    }

    fn after(&mut self, committed: Hook, rolled_back: Hook) {
        self.0.after_commit(committed);
        self.0.after_rollback(rolled_back);
    }
}
