//! A server that is killed under load.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sendoff_core::Event;
use sendoff_engine::Outbox;
use sendoff_engine::capture::{CommitError, WriteError};
use sendoff_mysql::MysqlStore;
use sendoff_testkit::durability::{OwnServer, Served, Writer, async_trait};

use crate::place::{Place, try_connect};
use crate::server::Server;

#[async_trait]
impl OwnServer for Server {
    type Database = Place;

    async fn database(&self) -> Place {
        Place::at(self.url()).await
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
    type Store = MysqlStore;

    async fn store(&self) -> MysqlStore {
        Place::store(self).await
    }

    async fn connect(&self) -> Option<Box<dyn Writer<MysqlStore>>> {
        Some(Box::new(Connected(try_connect(&self.url).await.ok()?)))
    }
}

struct Connected(Conn);

#[async_trait]
impl Writer<MysqlStore> for Connected {
    async fn commit(
        &mut self,
        outbox: &Outbox<MysqlStore>,
        event: &Event,
    ) -> Result<(), CommitError> {
        let begun = outbox.begin(&mut self.0).await;
        let mut tx = begun.map_err(|error| CommitError::RolledBack(error.into()))?;
        tx.emit(event).unwrap();
        tx.commit().await
    }

    async fn leave_open(
        &mut self,
        outbox: &Outbox<MysqlStore>,
        event: &Event,
    ) -> Result<(), WriteError> {
        self.0.query_drop("begin").await.unwrap();
        outbox.write(&mut self.0, event).await.map(drop)
    }
}

sendoff_testkit::server_suite!(Server::start(&[]));
