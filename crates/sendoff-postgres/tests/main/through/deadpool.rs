//! Through deadpool-postgres.

use std::net::SocketAddr;

use deadpool_postgres::{Client, Manager, Pool, Transaction};
use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{OutboxSavepoint, OutboxTx};
use sendoff_engine::store::NewRow;
use sendoff_postgres::{PooledSavepoint, PooledTransaction, PostgresStore};
use sendoff_testkit::capture::{
    Begun, CaptureHarness, Guarded, Guards, Inserted, Nested, Nests, OutboxHarness, Own, Owns,
    Speaks, TRANSACTIONS_ONLY, Within, Written, commit_rows,
};
use sendoff_testkit::durability::{LinkHarness, Remote};
use tokio_postgres::NoTls;

use super::Orders;
use super::prepared::Prepared;

struct Deadpool {
    orders: Orders,
    pool: Pool,
}

impl Deadpool {
    async fn open() -> Self {
        let orders = Orders::open().await;
        Self { pool: pool(&orders.place.url), orders }
    }
}

/// A pool of so few connections.
fn pool(url: &str) -> Pool {
    let manager = Manager::new(url.parse().unwrap(), NoTls);
    Pool::builder(manager).max_size(2).build().unwrap()
}

impl LinkHarness for Deadpool {
    async fn connect_to(&self, address: SocketAddr) -> Client {
        pool(&self.orders.url_at(address)).get().await.unwrap()
    }
}

impl OutboxHarness for Deadpool {
    type Database = Orders;
    type Conn = Client;

    fn database(&self) -> &Orders {
        &self.orders
    }

    async fn connect(&self) -> Client {
        self.pool.get().await.unwrap()
    }

    async fn begin<'c>(client: &'c mut Client, outbox: &'c Outbox<PostgresStore>) -> Begun<'c> {
        Ok(Guarded::<Prepared, _>::open(outbox.begin(client).await?))
    }

    async fn own<'c>(client: &'c mut Client, outbox: &'c Outbox<PostgresStore>) -> Begun<'c> {
        Ok(Own::<Self, _>::open(outbox, client.transaction().await?))
    }
}

impl CaptureHarness for Deadpool {
    async fn write(
        client: &mut Client,
        outbox: &Outbox<PostgresStore>,
        events: &[Event],
    ) -> Written {
        outbox.write_all(&mut ***client, events).await
    }

    async fn sql(client: &mut Client, text: &str) -> Result<(), BoxError> {
        Ok(client.batch_execute(text).await?)
    }

    async fn commit(client: &mut Client, store: &PostgresStore, rows: &[NewRow]) -> Inserted {
        commit_rows(store, client, rows).await
    }
}

own_transactions!(Deadpool, Transaction);

sendoff_testkit::capture_suite!(Deadpool::open().await);

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(Deadpool::open().await);
}

/// Of one connection, so that what was left open on it is found.
struct OnPool(Deadpool);

impl OnPool {
    async fn open() -> Self {
        let Deadpool { orders, pool } = Deadpool::open().await;
        pool.resize(1);
        Self(Deadpool { orders, pool })
    }
}

impl OutboxHarness for OnPool {
    type Database = Orders;
    type Conn = Pool;

    fn database(&self) -> &Orders {
        &self.0.orders
    }

    async fn connect(&self) -> Pool {
        self.0.pool.clone()
    }

    async fn begin<'c>(pool: &'c mut Pool, outbox: &'c Outbox<PostgresStore>) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(&*pool).await?))
    }

    async fn own<'c>(_: &'c mut Pool, _: &'c Outbox<PostgresStore>) -> Begun<'c> {
        Err(TRANSACTIONS_ONLY.1.into())
    }
}

impl CaptureHarness for OnPool {
    async fn sql(pool: &mut Pool, text: &str) -> Result<(), BoxError> {
        Ok(pool.get().await?.batch_execute(text).await?)
    }

    async fn commit(pool: &mut Pool, store: &PostgresStore, rows: &[NewRow]) -> Inserted {
        commit_rows(store, &*pool, rows).await
    }
}

impl Speaks<PooledTransaction> for OnPool {
    async fn sql(tx: &mut PooledTransaction, text: &str) -> Result<(), BoxError> {
        Ok(tx.batch_execute(text).await?)
    }
}

impl<'c> Speaks<PooledSavepoint<'c>> for OnPool {
    async fn sql(savepoint: &mut PooledSavepoint<'c>, text: &str) -> Result<(), BoxError> {
        Ok(savepoint.batch_execute(text).await?)
    }
}

impl Guards<PooledTransaction> for OnPool {
    async fn savepoint<'t>(
        tx: &'t mut OutboxTx<'_, PostgresStore, PooledTransaction>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c> Nests<PooledSavepoint<'c>> for OnPool {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, PostgresStore, PooledSavepoint<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

mod a_pool {
    use super::*;

    sendoff_testkit::capture_suite!(guard: OnPool::open().await);
}

mod a_broken_link {
    use super::*;

    sendoff_testkit::link_suite!(Deadpool::open().await);
}
