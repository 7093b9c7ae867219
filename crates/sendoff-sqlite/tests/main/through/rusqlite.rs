//! Through rusqlite, whose calls block.

use std::future::{self, Future};
use std::ops::Deref;

use ::rusqlite::{Connection, Savepoint, Transaction};
use sendoff_core::{BoxError, Event, EventId};
use sendoff_engine::capture::{
    BeginBlocking, BlockingOutboxSavepoint, BlockingOutboxTx, Capture, CaptureBlocking,
    CommitBlocking, CommitError, Join, JoinBlocking, JoinError, Part, WriteError,
};
use sendoff_engine::store::{Born, NewRow};
use sendoff_engine::{Inbox, OnceError, Outbox};
use sendoff_sqlite::SqliteStore;
use sendoff_testkit::capture::{
    self, Begun, CaptureHarness, Hook, Inserted, OutboxHarness, Own, Owns, Speaks, Within, Written,
    async_trait,
};

use super::Orders;

struct Rusqlite(Orders);

impl OutboxHarness for Rusqlite {
    type Database = Orders;
    type Conn = Connection;

    fn database(&self) -> &Orders {
        &self.0
    }

    async fn connect(&self) -> Connection {
        self.0.connect()
    }

    async fn begin<'c>(conn: &'c mut Connection, outbox: &'c Outbox<SqliteStore>) -> Begun<'c> {
        Ok(Box::new(Guarded::Transaction(outbox.begin_blocking(conn)?)))
    }

    async fn own<'c>(conn: &'c mut Connection, outbox: &'c Outbox<SqliteStore>) -> Begun<'c> {
        Ok(Own::<Self, _>::open(outbox, Blocking(conn.transaction()?)))
    }
}

impl CaptureHarness for Rusqlite {
    const CANNOT: &'static [(&'static str, &'static str)] = &[
        (
            "a_write_of_many_that_is_dropped_leaves_all_or_none",
            "a call that blocks cannot be dropped on its way",
        ),
        (
            "of_many_at_once_one_makes_the_effect",
            "a call that blocks waits for nobody on its own thread",
        ),
        (
            "a_commit_dropped_on_its_way_is_carried_out_or_not_but_never_half",
            "a call that blocks cannot be dropped on its way",
        ),
    ];

    async fn sql(conn: &mut Connection, text: &str) -> Result<(), BoxError> {
        Ok(conn.execute_batch(text)?)
    }

    async fn write(
        conn: &mut Connection,
        outbox: &Outbox<SqliteStore>,
        events: &[Event],
    ) -> Written {
        outbox.write_all_blocking(conn, events)
    }

    async fn commit(conn: &mut Connection, store: &SqliteStore, rows: &[NewRow]) -> Inserted {
        Ok(store.commit_blocking(store.begin_blocking(conn)?, rows)?)
    }
}

/// A transaction of the application's or a savepoint in one, as the suite wants to await them.
struct Blocking<Tx>(Tx);

impl<Tx: Deref<Target = Connection>> Capture<Blocking<Tx>> for SqliteStore {
    fn insert(
        &self,
        tx: &mut Blocking<Tx>,
        rows: &[NewRow],
    ) -> impl Future<Output = Result<Vec<Born>, WriteError>> + Send {
        future::ready(self.insert_blocking(&*tx.0, rows))
    }
}

impl<Tx: Deref<Target = Connection>> Join<Blocking<Tx>> for SqliteStore {
    fn join(
        &self,
        tx: &mut Blocking<Tx>,
        part: &Part<'_>,
    ) -> impl Future<Output = Result<bool, JoinError>> + Send {
        future::ready(self.join_blocking(&*tx.0, part))
    }
}

impl<Tx: Deref<Target = Connection>> Speaks<Blocking<Tx>> for Rusqlite {
    async fn sql(tx: &mut Blocking<Tx>, text: &str) -> Result<(), BoxError> {
        Ok(tx.0.execute_batch(text)?)
    }
}

impl<'c> Owns<Blocking<Transaction<'c>>> for Rusqlite {
    async fn nest<'t>(
        tx: &'t mut Blocking<Transaction<'c>>,
        within: Within<'t, Self>,
    ) -> Begun<'t> {
        Ok(within.open(Blocking(tx.0.savepoint()?)))
    }

    async fn commit(tx: Blocking<Transaction<'c>>) -> Result<(), BoxError> {
        Ok(tx.0.commit()?)
    }

    async fn rollback(tx: Blocking<Transaction<'c>>) -> Result<(), BoxError> {
        Ok(tx.0.rollback()?)
    }
}

impl<'c> Owns<Blocking<Savepoint<'c>>> for Rusqlite {
    async fn nest<'t>(tx: &'t mut Blocking<Savepoint<'c>>, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(Blocking(tx.0.savepoint()?)))
    }

    async fn commit(tx: Blocking<Savepoint<'c>>) -> Result<(), BoxError> {
        Ok(tx.0.commit()?)
    }

    /// Dropped, it is rolled back and released; by its own `rollback` it would stay set.
    async fn rollback(tx: Blocking<Savepoint<'c>>) -> Result<(), BoxError> {
        Ok(tx.0.finish()?)
    }
}

/// A guard that blocks, or a savepoint of one.
enum Guarded<'o> {
    Transaction(BlockingOutboxTx<'o, SqliteStore, Transaction<'o>>),
    Savepoint(BlockingOutboxSavepoint<'o, SqliteStore, Savepoint<'o>>),
}

impl Guarded<'_> {
    fn emit(&mut self, event: &Event) -> Result<EventId, WriteError> {
        match self {
            Self::Transaction(tx) => tx.emit(event),
            Self::Savepoint(tx) => tx.emit(event),
        }
    }

    fn conn(&self) -> &Connection {
        match self {
            Self::Transaction(tx) => tx,
            Self::Savepoint(tx) => tx,
        }
    }
}

#[async_trait(?Send)]
impl capture::Transaction for Guarded<'_> {
    async fn write(&mut self, events: &[Event]) -> Result<Vec<EventId>, WriteError> {
        events.iter().map(|event| self.emit(event)).collect()
    }

    async fn once(&mut self, consumer: &str, id: EventId) -> Result<bool, OnceError> {
        let store = match self {
            Self::Transaction(tx) => tx.store().clone(),
            Self::Savepoint(tx) => tx.store().clone(),
        };
        Inbox::new(store).once_blocking(self.conn(), consumer, id)
    }

    async fn sql(&mut self, text: &str) -> Result<(), BoxError> {
        Ok(self.conn().execute_batch(text)?)
    }

    async fn savepoint(&mut self) -> Begun<'_> {
        Ok(Box::new(Guarded::Savepoint(match self {
            Self::Transaction(tx) => tx.savepoint()?,
            Self::Savepoint(tx) => tx.savepoint()?,
        })))
    }

    async fn commit(self: Box<Self>) -> Result<(), CommitError> {
        match *self {
            Self::Transaction(tx) => tx.commit(),
            Self::Savepoint(tx) => tx.release(),
        }
    }

    async fn rollback(self: Box<Self>) -> Result<(), CommitError> {
        match *self {
            Self::Transaction(tx) => tx.rollback(),
            Self::Savepoint(tx) => tx.rollback(),
        }
    }

    fn after(&mut self, committed: Hook, rolled_back: Hook) {
        match self {
            Self::Transaction(tx) => {
                tx.after_commit(committed);
                tx.after_rollback(rolled_back);
            }
            Self::Savepoint(tx) => {
                tx.after_commit(committed);
                tx.after_rollback(rolled_back);
            }
        }
    }
}

sendoff_testkit::capture_suite!(Rusqlite(Orders::open().await));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(Rusqlite(Orders::open().await));
}
