//! What the capture suite needs of a driver.

use async_trait::async_trait;
use sendoff_core::{BoxError, Delivery, Event, EventId};
use sendoff_engine::capture::{CommitError, Staged, WriteError};
use sendoff_engine::store::{Born, NewRow, OutboxStore, SendStore};
use sendoff_engine::{OnceError, Outbox, SettleInError};

/// The way an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// `begin`, `emit`, `commit`.
    Guard,
    /// `write_all` into a transaction the application holds, and `release` of the receipt.
    Own,
}

/// What runs when a transaction has ended.
pub type Hook = Box<dyn FnOnce() + Send>;

/// A transaction or a savepoint that is open.
pub type Open<'t> = Box<dyn Transaction + 't>;

/// A transaction with an outbox, or a savepoint in one. Dropped, it rolls back.
#[async_trait(?Send)]
pub trait Transaction {
    /// Writes events: a guard stages them, a transaction of the application's has them at once.
    async fn write(&mut self, events: &[Event]) -> Result<Vec<EventId>, WriteError>;

    /// Inserts rows; a guard does so with its commit.
    async fn insert(&mut self, _rows: &[NewRow]) -> Inserted {
        Err("a guard inserts when it commits".into())
    }

    /// Remembers that a consumer saw an event, and says whether that is the first time.
    async fn once(&mut self, consumer: &str, id: EventId) -> Result<bool, OnceError>;

    /// Settles the event of a running handler in it. A guard has the same types within, and is not asked.
    async fn settle_in(&mut self, delivery: &Delivery) -> Result<(), SettleInError> {
        Err(SettleInError::NotRunning(delivery.id()))
    }

    /// A statement of the application's.
    async fn sql(&mut self, text: &str) -> Result<(), BoxError>;

    /// Sets a savepoint, which [`commit`](Self::commit) releases.
    async fn savepoint(&mut self) -> Begun<'_>;

    /// Commits. What the driver of an application's own transaction refuses is `RolledBack`. Receipts
    /// are released after the end, whichever it was: as by somebody who thinks that it committed.
    async fn commit(self: Box<Self>) -> Result<(), CommitError>;

    /// Rolls back.
    async fn rollback(self: Box<Self>) -> Result<(), CommitError>;

    /// Has code run after the end; only a guard knows of it.
    fn after(&mut self, _committed: Hook, _rolled_back: Hook) {}

    /// Forgets the receipts; a guard has none.
    fn forget(&mut self) {}
}

/// What beginning a transaction answers, or setting a savepoint.
pub type Begun<'t> = Result<Open<'t>, BoxError>;

/// What committing rows answers.
pub type Inserted = Result<Vec<Born>, BoxError>;

/// What a write on a connection answers.
pub type Written = Result<Staged<Vec<EventId>>, WriteError>;

/// The store of a harness.
pub type StoreOf<H> = <<H as OutboxHarness>::Database as Database>::Store;

/// A store and a driver, as an application would have them.
pub trait OutboxHarness: Sized {
    /// The database.
    type Database: Database;

    /// A connection of the application's, or a pool.
    type Conn;

    /// The database.
    fn database(&self) -> &Self::Database;

    /// Opens a connection.
    async fn connect(&self) -> Self::Conn;

    /// Begins a transaction with a guard: `Ok(Guarded::<Self, _>::open(outbox.begin(conn).await?))`.
    async fn begin<'c>(_: &'c mut Self::Conn, _: &'c Outbox<StoreOf<Self>>) -> Begun<'c> {
        Err("this driver has no guard".into())
    }

    /// Begins a transaction of the application's own.
    async fn own<'c>(conn: &'c mut Self::Conn, outbox: &'c Outbox<StoreOf<Self>>) -> Begun<'c>;

    /// The store, another handle each time; all of one harness are one database.
    fn store(&self) -> StoreOf<Self> {
        self.database().store()
    }
}

/// What an application has beside its outbox: a table for orders whose `id` is the primary key, and a
/// column `parent` that names another.
pub trait Database {
    /// The store of its outbox.
    type Store: OutboxStore + SendStore + Clone;

    /// What cannot be promised on this database through any driver, as in [`CaptureHarness::CANNOT`].
    const CANNOT: &'static [(&'static str, &'static str)] = &[];

    /// Whether an error of a statement ends the transaction it was sent in.
    const ERRORS_END_TRANSACTIONS: bool = false;

    /// Whether whoever writes anything waits for whoever else does.
    const WRITERS_WAIT: bool = false;

    /// Statements by which an application could end its transaction behind the driver's back.
    const ENDS_BY_HAND: &'static [&'static str] = &["rollback", "commit"];

    /// Statements that give a session odd settings.
    const ODD_SETTINGS: &'static [&'static str] = &[];

    /// The ends of what can be kept as a time, in microseconds since 1970.
    const TIMES: &'static [i64] = &[];

    /// The store, another handle each time.
    fn store(&self) -> Self::Store;

    /// The name of the table of orders, for any connection.
    fn orders_table(&self) -> String {
        "orders".to_owned()
    }

    /// The ids of the orders that others can see, ascending; `None` where there is nothing but the
    /// outbox, and statements do nothing.
    async fn orders(&self) -> Option<Vec<i64>>;

    /// Closes the store.
    async fn close(store: &Self::Store);
}

/// A driver, on a database of its own.
pub trait CaptureHarness: OutboxHarness {
    /// What cannot be promised through this driver, and why: the name of a case, alone or as
    /// `own_transaction::name`.
    const CANNOT: &'static [(&'static str, &'static str)] = &[];

    /// Whether a savepoint that is dropped takes its transaction with it.
    const DROPPED_SAVEPOINTS_END_TRANSACTIONS: bool = false;

    /// Whether the driver can still use a connection whose transaction was ended behind its back.
    const CONNECTIONS_OUTLIVE_ENDS_BY_HAND: bool = true;

    /// A statement on a connection.
    async fn sql(conn: &mut Self::Conn, text: &str) -> Result<(), BoxError>;

    /// Writes on a connection, of which nobody knows whether a transaction is open on it.
    async fn write(_: &mut Self::Conn, _: &Outbox<StoreOf<Self>>, _: &[Event]) -> Written {
        Err(WriteError::Driver(TRANSACTIONS_ONLY.1.into()))
    }

    /// Commits rows as a guard does: `commit_rows(store, conn, rows).await`.
    async fn commit(_: &mut Self::Conn, _: &StoreOf<Self>, _: &[NewRow]) -> Inserted {
        Err("this driver has no guard".into())
    }
}

/// What a driver says that cannot write on a connection: an entry of [`CaptureHarness::CANNOT`].
pub const TRANSACTIONS_ONLY: (&str, &str) =
    ("a_connection_needs_a_transaction_whoever_began_it", "only a transaction can be written to");

/// How a statement is sent in a transaction of this type.
pub trait Speaks<Tx>: OutboxHarness {
    /// Sends it.
    async fn sql(tx: &mut Tx, text: &str) -> Result<(), BoxError>;
}
