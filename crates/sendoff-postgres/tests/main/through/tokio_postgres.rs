//! Through tokio-postgres.

use std::net::SocketAddr;

use ::tokio_postgres::{Client, Transaction};
use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{OutboxSavepoint, OutboxTx};
use sendoff_engine::store::NewRow;
use sendoff_postgres::{Doorbell, PostgresStore};
use sendoff_testkit::capture::{
    Begun, CaptureHarness, Guarded, Guards, Inserted, Nested, Nests, OutboxHarness, Own, Owns,
    Speaks, Within, Written, commit_rows,
};
use sendoff_testkit::durability::{LinkHarness, Remote};

use super::Orders;
use crate::place::{NEWER_SERVER, Place, connect};

pub(crate) struct TokioPostgres(pub(crate) Orders);

impl OutboxHarness for TokioPostgres {
    type Database = Orders;
    type Conn = Client;

    fn database(&self) -> &Orders {
        &self.0
    }

    async fn connect(&self) -> Client {
        self.0.place.client().await
    }

    async fn begin<'c>(client: &'c mut Client, outbox: &'c Outbox<PostgresStore>) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(client).await?))
    }

    async fn own<'c>(client: &'c mut Client, outbox: &'c Outbox<PostgresStore>) -> Begun<'c> {
        Ok(Own::<Self, _>::open(outbox, client.transaction().await?))
    }
}

impl CaptureHarness for TokioPostgres {
    async fn write(
        client: &mut Client,
        outbox: &Outbox<PostgresStore>,
        events: &[Event],
    ) -> Written {
        outbox.write_all(client, events).await
    }

    async fn sql(client: &mut Client, text: &str) -> Result<(), BoxError> {
        Ok(client.batch_execute(text).await?)
    }

    async fn commit(client: &mut Client, store: &PostgresStore, rows: &[NewRow]) -> Inserted {
        commit_rows(store, client, rows).await
    }
}

own_transactions!(TokioPostgres, Transaction);

impl<'c> Guards<Transaction<'c>> for TokioPostgres {
    async fn savepoint<'t>(tx: &'t mut OutboxTx<'_, PostgresStore, Transaction<'c>>) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c> Nests<Transaction<'c>> for TokioPostgres {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, PostgresStore, Transaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl LinkHarness for TokioPostgres {
    async fn connect_to(&self, address: SocketAddr) -> Client {
        connect(&self.0.url_at(address)).await.unwrap()
    }
}

sendoff_testkit::capture_suite!(TokioPostgres(Orders::open().await));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(TokioPostgres(Orders::open().await));
}

/// PgBouncer gives every transaction another session.
mod behind_a_pooler {
    use super::*;

    sendoff_testkit::acceptance_suite!(TokioPostgres(
        Orders::with(Place::pooled(), Doorbell::Off).await
    ));
}

mod on_a_newer_server {
    use super::*;

    sendoff_testkit::acceptance_suite!(TokioPostgres(
        Orders::with(Place::on(NEWER_SERVER), Doorbell::On).await
    ));
}

mod a_broken_link {
    use super::*;

    sendoff_testkit::link_suite!(TokioPostgres(Orders::open().await));
}
