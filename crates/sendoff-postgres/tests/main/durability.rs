//! A server that is killed under load.

use sendoff_core::Event;
use sendoff_engine::Outbox;
use sendoff_engine::capture::{CommitError, WriteError};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::durability::{OwnServer, Served, Writer, async_trait};
use tokio_postgres::Client;

use crate::place::{Place, connect};
use crate::server::Server;

#[async_trait]
impl OwnServer for Server {
    type Database = Place;

    async fn database(&self) -> Place {
        Place::in_schema(self.url(), "public".to_owned())
    }

    fn kill(&mut self) {
        Server::kill(self);
    }

    fn up(&mut self) {
        Server::up(self);
    }
}

#[async_trait]
impl Served for Place {
    type Store = PostgresStore;

    async fn store(&self) -> PostgresStore {
        Place::store(self).await
    }

    async fn connect(&self) -> Option<Box<dyn Writer<PostgresStore>>> {
        Some(Box::new(Connected(connect(&self.url).await.ok()?)))
    }
}

struct Connected(Client);

#[async_trait]
impl Writer<PostgresStore> for Connected {
    async fn commit(
        &mut self,
        outbox: &Outbox<PostgresStore>,
        event: &Event,
    ) -> Result<(), CommitError> {
        let begun = outbox.begin(&mut self.0).await;
        let mut tx = begun.map_err(|error| CommitError::RolledBack(error.into()))?;
        tx.emit(event).unwrap();
        tx.commit().await
    }

    async fn leave_open(
        &mut self,
        outbox: &Outbox<PostgresStore>,
        event: &Event,
    ) -> Result<(), WriteError> {
        self.0.batch_execute("begin").await.unwrap();
        outbox.write(&mut self.0, event).await.map(drop)
    }
}

sendoff_testkit::server_suite!(Server::start());
