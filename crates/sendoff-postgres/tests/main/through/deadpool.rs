//! Through deadpool-postgres.

use deadpool_postgres::{Client, Manager, Pool, Transaction};
use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_engine::store::NewRow;
use sendoff_postgres::PostgresStore;
use sendoff_testkit::capture::{
    Begun, CaptureHarness, Guarded, Inserted, OutboxHarness, Own, Owns, Speaks, Within, Written,
    commit_rows,
};
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
        let manager = Manager::new(orders.place.url.parse().unwrap(), NoTls);
        Self { pool: Pool::builder(manager).max_size(2).build().unwrap(), orders }
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

impl<'c> Speaks<Transaction<'c>> for Deadpool {
    async fn sql(tx: &mut Transaction<'c>, text: &str) -> Result<(), BoxError> {
        Ok(tx.batch_execute(text).await?)
    }
}

impl<'c> Owns<Transaction<'c>> for Deadpool {
    async fn nest<'t>(tx: &'t mut Transaction<'c>, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(tx.transaction().await?))
    }

    async fn commit(tx: Transaction<'c>) -> Result<(), BoxError> {
        Ok(tx.commit().await?)
    }

    async fn rollback(tx: Transaction<'c>) -> Result<(), BoxError> {
        Ok(tx.rollback().await?)
    }
}

sendoff_testkit::capture_suite!(Deadpool::open().await);

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(Deadpool::open().await);
}
