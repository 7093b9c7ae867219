//! A server that is killed under load.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sendoff_core::Event;
use sendoff_engine::Outbox;
use sendoff_engine::capture::CommitError;
use sendoff_mysql::MysqlStore;
use sendoff_testkit::durability::{OwnServer, Served, async_trait, commit_in};

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
    type Conn = Conn;

    async fn store(&self) -> MysqlStore {
        Place::store(self).await
    }

    async fn connect(&self) -> Option<Conn> {
        try_connect(&self.url).await.ok()
    }

    async fn begin(conn: &mut Conn) {
        conn.query_drop("begin").await.unwrap();
    }

    async fn commit(
        conn: &mut Conn,
        outbox: &Outbox<MysqlStore>,
        event: &Event,
    ) -> Result<(), CommitError> {
        commit_in(outbox.begin(conn).await, event).await
    }
}

sendoff_testkit::server_suite!(Server::start(&[]));
