//! Several nodes on one database.

use mysql_async::Conn;
use sendoff_core::Event;
use sendoff_engine::Outbox;
use sendoff_engine::store::{Born, Claim, ClaimStore, NewRow};
use sendoff_mysql::{MysqlOptions, MysqlStore, Retention};
use sendoff_testkit::acceptance::async_trait;
use sendoff_testkit::nodes::{self, NodesHarness};
use tokio::sync::Mutex;

use crate::place::{MARIADB, MYSQL, Place, by, due, event, write};

pub(crate) struct Nodes {
    pub(crate) place: Place,
    pub(crate) options: MysqlOptions,
    conn: Mutex<Conn>,
}

impl Nodes {
    pub(crate) async fn open(server: &str, retention: Retention) -> Self {
        let place = Place::on(server).await;
        let options = MysqlOptions { retention, ..MysqlOptions::default() };
        Self { options, conn: Mutex::new(place.conn().await), place }
    }
}

#[async_trait]
impl NodesHarness for Nodes {
    type Store = MysqlStore;

    async fn store(&self) -> MysqlStore {
        self.place.store_with(self.options.clone()).await
    }

    async fn write(&self, store: &MysqlStore, rows: &[NewRow]) -> Vec<Born> {
        write(store, &mut *self.conn.lock().await, rows).await
    }

    async fn emit(&self, outbox: &Outbox<MysqlStore>, events: &[Event]) {
        let mut conn = self.conn.lock().await;
        let mut tx = outbox.begin(&mut *conn).await.unwrap();
        for event in events {
            tx.emit(event).unwrap();
        }
        tx.commit().await.unwrap();
    }
}

/// Holds S5, S6 and L5, under load: every row exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_drain_a_backlog_and_no_row_is_delivered_twice() {
    nodes::two_nodes_drain_a_backlog(&Nodes::open(MARIADB, Retention::default()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_drain_a_backlog_on_mysql_and_no_row_is_delivered_twice() {
    nodes::two_nodes_drain_a_backlog(&Nodes::open(MYSQL, Retention::default()).await).await;
}

/// No duplicates without a fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handlers_and_frequent_polls_deliver_each_event_exactly_once() {
    let nodes = Nodes::open(MARIADB, Retention::default()).await;
    nodes::slow_handlers_and_frequent_polls(&nodes).await;
}

/// Fault 20: batches that name the same rows in another order wait, and never for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_settle_the_same_rows_never_deadlock() {
    let cases = [
        (MARIADB, Retention::default()),
        (MARIADB, Retention::DeleteWhenDone),
        (MYSQL, Retention::default()),
    ];
    for (server, retention) in cases {
        nodes::nodes_settle_the_same_rows(&Nodes::open(server, retention).await).await;
    }
}

/// Holds S9: several databases in one process.
#[tokio::test]
async fn outboxes_in_one_process_do_not_meet() {
    let (one, two) = (Place::new().await, Place::new().await);
    let (first, second) = (one.store().await, two.store().await);
    write(&first, &mut one.conn().await, &[due(event())]).await;
    assert!(second.claim(&by("a")).await.unwrap().rows.is_empty());
    let claim = Claim { limit: 10, ..by("a") };
    assert_eq!(first.claim(&claim).await.unwrap().rows.len(), 1);
}
