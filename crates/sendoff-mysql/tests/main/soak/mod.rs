//! Tests with a form of minutes: `cargo xtask soak NAME`.

mod dead_letters;
mod journal_bytes;
mod journal_outages;
mod locked_row;
mod order;
mod outage;
mod sigstop;
mod wake_up;

use std::net::SocketAddr;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sendoff_core::EventId;
use sendoff_mysql::{MysqlOptions, MysqlStore, Retention};
use sendoff_testkit::acceptance::async_trait;
use sendoff_testkit::conformance::ForeignLock;
use sendoff_testkit::ordeal::OrdealHarness;
use sendoff_testkit::process::Node;
use sendoff_testkit::soak;

use crate::nodes::Nodes;
use crate::place::{MARIADB, port};

pub(crate) async fn nodes() -> Nodes {
    let mut nodes = Nodes::open(MARIADB, Retention::default()).await;
    nodes.options = options();
    nodes
}

/// The usual ones, with the shortest silence that a server can be told to bear.
fn options() -> MysqlOptions {
    let silence = soak::lasting(Duration::from_secs(10), Duration::from_secs(15));
    MysqlOptions { idle_in_transaction_timeout: silence, ..MysqlOptions::default() }
}

/// A connection with an open transaction.
struct Lock(Conn);

#[async_trait]
impl ForeignLock for Lock {
    async fn release(mut self: Box<Self>) {
        self.0.query_drop("rollback").await.unwrap();
    }
}

#[async_trait]
impl OrdealHarness for Nodes {
    async fn lock_row(&self, id: EventId) -> Box<dyn ForeignLock> {
        let mut conn = self.place.conn().await;
        let id = id.to_string().replace('-', "");
        conn.query_drop("begin").await.unwrap();
        let lock = format!("select * from outbox_event where event_id = unhex('{id}') for update");
        conn.query_drop(lock).await.unwrap();
        Box::new(Lock(conn))
    }

    fn node(&self, runner: &[&str], told: &[(&str, &str)]) -> Node {
        let place = &self.place;
        let at = [("SENDOFF_TEST_NODE", &*place.url)];
        let told: Vec<_> = at.into_iter().chain(told.iter().copied()).collect();
        Node::start_under(runner, "soak::sigstop::node", &told)
    }

    fn server(&self) -> SocketAddr {
        port(&self.place.url)
    }

    async fn store_at(&self, server: SocketAddr) -> MysqlStore {
        let (from, to) = (format!(":{}/", self.server().port()), format!(":{}/", server.port()));
        let url = self.place.url.replace(&from, &to);
        MysqlStore::connect_with(&url, self.options.clone()).await.unwrap()
    }
}
