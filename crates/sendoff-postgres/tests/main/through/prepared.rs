//! Through a connection of tokio-postgres on which the insert is prepared.

use std::net::SocketAddr;

use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{
    Begin, Capture, Commit, Join, JoinError, OutboxTx, Part, WriteError,
};
use sendoff_engine::store::{Born, NewRow};
use sendoff_postgres::{PostgresStore, PreparedClient, PreparedTransaction};
use sendoff_testkit::capture::{
    Begun, CaptureHarness, Guarded, Guards, Inserted, Nested, OutboxHarness, Own, Owns, Speaks,
    Within, Written, commit_rows,
};
use sendoff_testkit::durability::{LinkHarness, Remote};

use super::Orders;
use super::tokio_postgres::TokioPostgres;
use crate::place::connect;

pub(crate) struct Prepared(Orders);

/// A transaction that only the store can end.
struct OwnTransaction<'c> {
    store: PostgresStore,
    tx: PreparedTransaction<'c>,
}

impl OutboxHarness for Prepared {
    type Database = Orders;
    type Conn = PreparedClient;

    fn database(&self) -> &Orders {
        &self.0
    }

    async fn connect(&self) -> PreparedClient {
        self.0.store.prepare(self.0.place.client().await).await.unwrap()
    }

    async fn begin<'c>(
        client: &'c mut PreparedClient,
        outbox: &'c Outbox<PostgresStore>,
    ) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(client).await?))
    }

    async fn own<'c>(
        client: &'c mut PreparedClient,
        outbox: &'c Outbox<PostgresStore>,
    ) -> Begun<'c> {
        let store = outbox.store().clone();
        let tx = store.begin(client).await?;
        Ok(Own::<Self, _>::open(outbox, OwnTransaction { store, tx }))
    }
}

impl CaptureHarness for Prepared {
    async fn write(
        client: &mut PreparedClient,
        outbox: &Outbox<PostgresStore>,
        events: &[Event],
    ) -> Written {
        outbox.write_all(&mut **client, events).await
    }

    async fn sql(client: &mut PreparedClient, text: &str) -> Result<(), BoxError> {
        Ok(client.batch_execute(text).await?)
    }

    async fn commit(
        client: &mut PreparedClient,
        store: &PostgresStore,
        rows: &[NewRow],
    ) -> Inserted {
        commit_rows(store, client, rows).await
    }
}

impl<'c> Speaks<PreparedTransaction<'c>> for Prepared {
    async fn sql(tx: &mut PreparedTransaction<'c>, text: &str) -> Result<(), BoxError> {
        Ok(tx.batch_execute(text).await?)
    }
}

impl<'c> Guards<PreparedTransaction<'c>> for Prepared {
    async fn savepoint<'t>(
        tx: &'t mut OutboxTx<'_, PostgresStore, PreparedTransaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<TokioPostgres, _>::open(tx.savepoint().await?))
    }
}

impl<'c> Capture<OwnTransaction<'c>> for PostgresStore {
    async fn insert(
        &self,
        own: &mut OwnTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, WriteError> {
        self.insert(&mut own.tx, rows).await
    }
}

impl<'c> Join<OwnTransaction<'c>> for PostgresStore {
    async fn join(&self, own: &mut OwnTransaction<'c>, part: &Part<'_>) -> Result<bool, JoinError> {
        self.join(&mut own.tx, part).await
    }
}

impl<'c> Speaks<OwnTransaction<'c>> for Prepared {
    async fn sql(own: &mut OwnTransaction<'c>, text: &str) -> Result<(), BoxError> {
        Ok(own.tx.batch_execute(text).await?)
    }
}

impl<'c> Owns<OwnTransaction<'c>> for Prepared {
    async fn nest<'t>(own: &'t mut OwnTransaction<'c>, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.like::<TokioPostgres>().open(own.tx.transaction().await?))
    }

    async fn commit(OwnTransaction { store, tx }: OwnTransaction<'c>) -> Result<(), BoxError> {
        Ok(store.commit(tx, &[]).await.map(drop)?)
    }

    async fn rollback(OwnTransaction { store, tx }: OwnTransaction<'c>) -> Result<(), BoxError> {
        Ok(store.rollback(tx).await?)
    }
}

impl LinkHarness for Prepared {
    async fn connect_to(&self, address: SocketAddr) -> PreparedClient {
        let client = connect(&self.0.url_at(address)).await.unwrap();
        self.0.store.prepare(client).await.unwrap()
    }
}

sendoff_testkit::capture_suite!(Prepared(Orders::open().await));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(Prepared(Orders::open().await));
}

mod a_broken_link {
    use super::*;

    sendoff_testkit::link_suite!(Prepared(Orders::open().await));
}
