//! Transactions of the application's own, as the capture suite uses them.

use std::cell::RefCell;
use std::rc::Rc;

use async_trait::async_trait;
use sendoff_core::{BoxError, Delivery, Event, EventId};
use sendoff_engine::capture::{Capture, CommitError, Join, Staged, WriteError};
use sendoff_engine::store::NewRow;
use sendoff_engine::{Inbox, OnceError, Outbox, SettleInError};

use super::harness::{
    Begun, Database, Inserted, Open, OutboxHarness, Speaks, StoreOf, Transaction,
};

/// What an application does with a transaction of its own, of this type.
pub trait Owns<Tx>: Speaks<Tx, Database: Database<Store: Capture<Tx> + Join<Tx>>> {
    /// Sets a savepoint as the driver does, and opens it `within`.
    async fn nest<'t>(tx: &'t mut Tx, within: Within<'t, Self>) -> Begun<'t>;

    /// Commits, or releases a savepoint.
    async fn commit(tx: Tx) -> Result<(), BoxError>;

    /// Rolls back.
    async fn rollback(tx: Tx) -> Result<(), BoxError>;
}

type Receipts = Rc<RefCell<Vec<Staged<Vec<EventId>>>>>;

/// What a savepoint shares with the transaction around it.
#[derive(Debug)]
pub struct Within<'o, H: OutboxHarness> {
    outbox: &'o Outbox<StoreOf<H>>,
    receipts: Receipts,
}

impl<'o, H: OutboxHarness> Within<'o, H> {
    /// The same for a harness that knows the type of the savepoint.
    pub fn like<Other: OutboxHarness<Database = H::Database>>(self) -> Within<'o, Other> {
        Within { outbox: self.outbox, receipts: self.receipts }
    }

    /// Takes the driver's savepoint.
    pub fn open<Tx: 'o>(self, tx: Tx) -> Open<'o>
    where
        H: Owns<Tx> + 'o,
    {
        let Self { outbox, receipts } = self;
        Box::new(Own::<H, Tx> { outbox, tx: Some(tx), receipts, outermost: false })
    }
}

/// A transaction of the application's own, for the suite.
#[derive(Debug)]
pub struct Own<'o, H: OutboxHarness, Tx> {
    outbox: &'o Outbox<StoreOf<H>>,
    tx: Option<Tx>,
    receipts: Receipts,
    outermost: bool,
}

const ENDED: &str = "whatever takes the transaction consumes it";

impl<'o, H: OutboxHarness, Tx: 'o> Own<'o, H, Tx> {
    /// Takes it.
    pub fn open(outbox: &'o Outbox<StoreOf<H>>, tx: Tx) -> Open<'o>
    where
        H: Owns<Tx> + 'o,
    {
        let receipts = Receipts::default();
        Box::new(Self { outbox, tx: Some(tx), receipts, outermost: true })
    }
}

#[async_trait(?Send)]
impl<H: Owns<Tx>, Tx> Transaction for Own<'_, H, Tx> {
    async fn write(&mut self, events: &[Event]) -> Result<Vec<EventId>, WriteError> {
        let tx = self.tx.as_mut().expect(ENDED);
        let staged = self.outbox.write_all(tx, events).await?;
        let ids = staged.ids().to_vec();
        self.receipts.borrow_mut().push(staged);
        Ok(ids)
    }

    async fn insert(&mut self, rows: &[NewRow]) -> Inserted {
        Ok(self.outbox.store().insert(self.tx.as_mut().expect(ENDED), rows).await?)
    }

    async fn once(&mut self, consumer: &str, id: EventId) -> Result<bool, OnceError> {
        let inbox = Inbox::new(self.outbox.store().clone());
        inbox.once(self.tx.as_mut().expect(ENDED), consumer, id).await
    }

    async fn settle_in(&mut self, delivery: &Delivery) -> Result<(), SettleInError> {
        self.outbox.settle_in(delivery, self.tx.as_mut().expect(ENDED)).await
    }

    async fn sql(&mut self, text: &str) -> Result<(), BoxError> {
        <H as Speaks<Tx>>::sql(self.tx.as_mut().expect(ENDED), text).await
    }

    async fn savepoint(&mut self) -> Begun<'_> {
        let within = Within { outbox: self.outbox, receipts: self.receipts.clone() };
        H::nest(self.tx.as_mut().expect(ENDED), within).await
    }

    async fn commit(mut self: Box<Self>) -> Result<(), CommitError> {
        H::commit(self.tx.take().expect(ENDED)).await.map_err(CommitError::RolledBack)
    }

    async fn rollback(mut self: Box<Self>) -> Result<(), CommitError> {
        H::rollback(self.tx.take().expect(ENDED)).await.map_err(CommitError::RolledBack)
    }

    fn forget(&mut self) {
        self.receipts.borrow_mut().clear();
    }
}

impl<H: OutboxHarness, Tx> Drop for Own<'_, H, Tx> {
    fn drop(&mut self) {
        drop(self.tx.take());
        if self.outermost {
            self.receipts.borrow_mut().drain(..).for_each(Staged::release);
        }
    }
}
