//! Tests with a form of minutes: `cargo xtask soak NAME`.

mod crash;
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

use sendoff_core::EventId;
use sendoff_postgres::{PostgresOptions, PostgresStore, Retention};
use sendoff_testkit::acceptance::async_trait;
use sendoff_testkit::conformance::ForeignLock;
use sendoff_testkit::ordeal::OrdealHarness;
use sendoff_testkit::process::Node;
use sendoff_testkit::soak;
use tokio_postgres::Client;

use crate::nodes::Nodes;
use crate::place::{Place, port};

pub(crate) async fn nodes() -> Nodes {
    let mut nodes = Nodes::open(Retention::default()).await;
    nodes.options = options(&nodes.place);
    nodes
}

/// The usual ones, with the shortest silence that a server can be told to bear.
fn options(place: &Place) -> PostgresOptions {
    let silence = soak::lasting(Duration::from_secs(10), Duration::from_secs(15));
    PostgresOptions { idle_in_transaction_timeout: silence, ..place.options() }
}

/// A connection with an open transaction.
struct Lock(Client);

#[async_trait]
impl ForeignLock for Lock {
    async fn release(self: Box<Self>) {
        self.0.batch_execute("rollback").await.unwrap();
    }
}

#[async_trait]
impl OrdealHarness for Nodes {
    async fn lock_row(&self, id: EventId) -> Box<dyn ForeignLock> {
        let client = self.place.client().await;
        let table = format!("{}.outbox_event", self.place.schema);
        let lock = format!("begin; select from {table} where event_id = '{id}' for update");
        client.batch_execute(&lock).await.unwrap();
        Box::new(Lock(client))
    }

    fn node(&self, runner: &[&str], told: &[(&str, &str)]) -> Node {
        let place = &self.place;
        let at = [("SENDOFF_TEST_NODE", &*place.schema), ("SENDOFF_POSTGRES_URL", &*place.url)];
        let told: Vec<_> = at.into_iter().chain(told.iter().copied()).collect();
        Node::start_under(runner, "soak::sigstop::node", &told)
    }

    fn server(&self) -> SocketAddr {
        port(&self.place.url)
    }

    async fn store_at(&self, server: SocketAddr) -> PostgresStore {
        let (from, to) = (format!(":{}/", self.server().port()), format!(":{}/", server.port()));
        let url = self.place.url.replace(&from, &to);
        PostgresStore::connect_with(&url, self.options.clone()).await.unwrap()
    }
}
