//! A server that is killed under load.

use sendoff_core::Event;
use sendoff_engine::Outbox;
use sendoff_engine::capture::CommitError;
use sendoff_postgres::PostgresStore;
use sendoff_testkit::durability::{OwnServer, Served, async_trait, commit_in};
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
    type Conn = Client;

    async fn store(&self) -> PostgresStore {
        Place::store(self).await
    }

    async fn connect(&self) -> Option<Client> {
        connect(&self.url).await.ok()
    }

    async fn begin(conn: &mut Client) {
        conn.batch_execute("begin").await.unwrap();
    }

    async fn commit(
        conn: &mut Client,
        outbox: &Outbox<PostgresStore>,
        event: &Event,
    ) -> Result<(), CommitError> {
        commit_in(outbox.begin(conn).await, event).await
    }
}

sendoff_testkit::server_suite!(Server::start());
