//! The harness of sqlx, compiled for each version of it: `sqlx_08.rs`, `sqlx_09.rs`.

use std::marker::PhantomData;
use std::net::SocketAddr;

use sendoff_core::{BoxError, Event, EventId};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{
    Begin, Capture, Commit, Join, Nest, OutboxSavepoint, OutboxTx, Release, WriteError,
};
use sendoff_engine::store::NewRow;

use super::driver::pool::PoolOptions;
use super::driver::{Connection, Database as Driver, Pool, Transaction};
use crate::capture::{
    Begun, CaptureHarness, Database, Guarded, Guards, Inserted, Nested, Nests, OutboxHarness, Own,
    Owns, Speaks, StoreOf, TRANSACTIONS_ONLY, Within, Written, commit_rows,
};
use crate::durability::{LinkHarness, Remote};
use crate::proxy::Cut;
use crate::steps::event;

/// A database that sqlx has a driver for, and whose store captures sqlx's connections, pools and
/// transactions.
pub trait SqlxDatabase<DB: Driver>:
    Database<
        Store: for<'c> Begin<&'c mut DB::Connection, Tx = Transaction<'c, DB>>
                   + for<'c> Begin<&'c Pool<DB>, Tx = Transaction<'static, DB>>
                   + for<'c> Capture<Transaction<'c, DB>>
                   + for<'c> Join<Transaction<'c, DB>>
                   + for<'c> Commit<Transaction<'c, DB>>
                   + for<'t, 'c> Nest<'t, Transaction<'c, DB>, Nested = Transaction<'t, DB>>
                   + for<'t> Release<'t, Transaction<'t, DB>>,
    > + 'static
{
    /// How a transaction begins, where not as sqlx would.
    const BEGIN: Option<&'static str> = None;

    /// See [`CaptureHarness::CANNOT`].
    const CANNOT: &'static [(&'static str, &'static str)] = &[];

    /// See [`CaptureHarness::CONNECTIONS_OUTLIVE_ENDS_BY_HAND`].
    const CONNECTIONS_OUTLIVE_ENDS_BY_HAND: bool = true;

    /// How to connect.
    fn options(&self) -> <DB::Connection as Connection>::Options;

    /// A statement: `conn.execute(ours(text)).await?`, which sqlx offers for a driver it knows.
    async fn sql(conn: &mut DB::Connection, text: &str) -> Result<(), BoxError>;

    /// See [`CaptureHarness::write`].
    async fn write(_: &mut DB::Connection, _: &Outbox<Self::Store>, _: &[Event]) -> Written {
        Err(WriteError::Driver(TRANSACTIONS_ONLY.1.into()))
    }
}

/// A connection of sqlx's.
#[derive(Debug)]
pub struct Sqlx<D, DB> {
    /// The database.
    pub database: D,
    driver: PhantomData<DB>,
}

impl<D: SqlxDatabase<DB>, DB: Driver> Sqlx<D, DB> {
    /// On this database.
    pub fn on(database: D) -> Self {
        Self { database, driver: PhantomData }
    }
}

impl<D: SqlxDatabase<DB>, DB: Driver> OutboxHarness for Sqlx<D, DB> {
    type Database = D;
    type Conn = DB::Connection;

    fn database(&self) -> &D {
        &self.database
    }

    async fn connect(&self) -> DB::Connection {
        DB::Connection::connect_with(&self.database.options()).await.expect("a connection")
    }

    async fn begin<'c>(conn: &'c mut DB::Connection, outbox: &'c Outbox<D::Store>) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(conn).await?))
    }

    async fn own<'c>(conn: &'c mut DB::Connection, outbox: &'c Outbox<D::Store>) -> Begun<'c> {
        let tx = match D::BEGIN {
            None => conn.begin().await?,
            Some(begin) => conn.begin_with(begin).await?,
        };
        Ok(Own::<Self, _>::open(outbox, tx))
    }
}

impl<D: SqlxDatabase<DB>, DB: Driver> CaptureHarness for Sqlx<D, DB> {
    const CANNOT: &'static [(&'static str, &'static str)] = <D as SqlxDatabase<DB>>::CANNOT;
    const CONNECTIONS_OUTLIVE_ENDS_BY_HAND: bool = D::CONNECTIONS_OUTLIVE_ENDS_BY_HAND;

    async fn sql(conn: &mut DB::Connection, text: &str) -> Result<(), BoxError> {
        D::sql(conn, text).await
    }

    async fn write(
        conn: &mut DB::Connection,
        outbox: &Outbox<D::Store>,
        events: &[Event],
    ) -> Written {
        D::write(conn, outbox, events).await
    }

    async fn commit(conn: &mut DB::Connection, store: &D::Store, rows: &[NewRow]) -> Inserted {
        commit_rows(store, conn, rows).await
    }
}

impl<'c, D: SqlxDatabase<DB>, DB: Driver> Speaks<Transaction<'c, DB>> for Sqlx<D, DB> {
    async fn sql(tx: &mut Transaction<'c, DB>, text: &str) -> Result<(), BoxError> {
        D::sql(tx, text).await
    }
}

impl<'c, D: SqlxDatabase<DB>, DB: Driver> Guards<Transaction<'c, DB>> for Sqlx<D, DB> {
    async fn savepoint<'t>(
        tx: &'t mut OutboxTx<'_, StoreOf<Self>, Transaction<'c, DB>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c, D: SqlxDatabase<DB>, DB: Driver> Nests<Transaction<'c, DB>> for Sqlx<D, DB> {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, StoreOf<Self>, Transaction<'c, DB>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c, D: SqlxDatabase<DB>, DB: Driver> Owns<Transaction<'c, DB>> for Sqlx<D, DB> {
    async fn nest<'t>(tx: &'t mut Transaction<'c, DB>, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(tx.begin().await?))
    }

    async fn commit(tx: Transaction<'c, DB>) -> Result<(), BoxError> {
        Ok(tx.commit().await?)
    }

    async fn rollback(tx: Transaction<'c, DB>) -> Result<(), BoxError> {
        Ok(tx.rollback().await?)
    }
}

impl<D: SqlxDatabase<DB> + Remote, DB: Driver> LinkHarness for Sqlx<D, DB> {
    /// sqlx writes it so, and waits for each answer before it goes on.
    const REQUEST_LOST: Cut = Cut::Request { text: b"COMMIT", before: 5, reply: b"" };

    async fn connect_to(&self, address: SocketAddr) -> DB::Connection {
        DB::Connection::connect(&self.database.url_at(address)).await.expect("a connection")
    }
}

/// A pool of sqlx's.
#[derive(Debug)]
pub struct Pooled<D, DB>(pub Sqlx<D, DB>);

impl<D: SqlxDatabase<DB>, DB: Driver> OutboxHarness for Pooled<D, DB> {
    type Database = D;
    type Conn = Pool<DB>;

    fn database(&self) -> &D {
        &self.0.database
    }

    async fn connect(&self) -> Pool<DB> {
        let options = PoolOptions::new().max_connections(2);
        options.connect_with(self.0.database.options()).await.expect("a pool")
    }

    async fn begin<'c>(pool: &'c mut Pool<DB>, outbox: &'c Outbox<D::Store>) -> Begun<'c> {
        Ok(Guarded::<Sqlx<D, DB>, _>::open(outbox.begin(&*pool).await?))
    }

    async fn own<'c>(pool: &'c mut Pool<DB>, outbox: &'c Outbox<D::Store>) -> Begun<'c> {
        let tx = match D::BEGIN {
            None => pool.begin().await?,
            Some(begin) => pool.begin_with(begin).await?,
        };
        Ok(Own::<Sqlx<D, DB>, _>::open(outbox, tx))
    }
}

/// Two transactions, one of them with a savepoint, as an application's task makes them, and the events they
/// wrote: what is spawned must be `Send`.
///
/// # Panics
/// If anything fails.
pub async fn two_transactions<D, DB>(outbox: Outbox<D::Store>, pool: Pool<DB>) -> Vec<EventId>
where
    D: SqlxDatabase<DB>,
    DB: Driver,
{
    let mut tx = outbox.begin(&pool).await.expect("a transaction");
    let mut savepoint = tx.savepoint().await.expect("a savepoint");
    let first = savepoint.emit(event()).expect("it can be written");
    savepoint.release().await.expect("it is released");
    tx.commit().await.expect("it commits");
    let mut conn = pool.acquire().await.expect("a connection");
    let mut tx = outbox.begin(&mut *conn).await.expect("a transaction");
    let second = outbox.write(&mut *tx, event()).await.expect("it is written");
    let id = second.id();
    tx.commit().await.expect("it commits");
    second.release();
    vec![first, id]
}
