//! Several nodes on one database.

use sendoff_core::Event;
use sendoff_engine::Outbox;
use sendoff_engine::capture::Commit;
use sendoff_engine::store::{Born, Claim, ClaimStore, NewRow, WakeStore};
use sendoff_postgres::{PostgresOptions, PostgresStore, Retention};
use sendoff_testkit::acceptance::async_trait;
use sendoff_testkit::nodes::{self, NodesHarness};
use tokio::sync::Mutex;
use tokio_postgres::{Client, IsolationLevel};

use crate::place::{Place, by, due, event, write};

pub(crate) struct Nodes {
    pub(crate) place: Place,
    pub(crate) options: PostgresOptions,
    client: Mutex<Client>,
}

impl Nodes {
    pub(crate) async fn open(retention: Retention) -> Self {
        let place = Place::new();
        let options = PostgresOptions { retention, ..place.options() };
        Self { options, client: Mutex::new(place.client().await), place }
    }
}

#[async_trait]
impl NodesHarness for Nodes {
    type Store = PostgresStore;

    async fn store(&self) -> PostgresStore {
        self.place.store_with(self.options.clone()).await
    }

    async fn write(&self, store: &PostgresStore, rows: &[NewRow]) -> Vec<Born> {
        write(store, &mut *self.client.lock().await, rows).await
    }

    async fn emit(&self, outbox: &Outbox<PostgresStore>, events: &[Event]) {
        let mut client = self.client.lock().await;
        let mut tx = outbox.begin(&mut *client).await.unwrap();
        for event in events {
            tx.emit(event).unwrap();
        }
        tx.commit().await.unwrap();
    }
}

/// Holds S5 and S6, under load: every row exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_drain_a_backlog_and_no_row_is_delivered_twice() {
    nodes::two_nodes_drain_a_backlog(&Nodes::open(Retention::default()).await).await;
}

/// No duplicates without a fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handlers_and_frequent_polls_deliver_each_event_exactly_once() {
    nodes::slow_handlers_and_frequent_polls(&Nodes::open(Retention::default()).await).await;
}

/// Fault 20: batches that name the same rows in another order wait, and never for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_settle_the_same_rows_never_deadlock() {
    for retention in [Retention::default(), Retention::DeleteWhenDone] {
        let nodes = Nodes::open(retention).await;
        let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
        let before = nodes.place.number(deadlocks).await;
        nodes::nodes_settle_the_same_rows(&nodes).await;
        assert_eq!(nodes.place.number(deadlocks).await, before);
    }
}

/// Holds S9: several databases in one process, here two schemas.
#[tokio::test]
async fn outboxes_in_one_process_do_not_meet() {
    let (one, two) = (Place::new(), Place::new());
    let (first, second) = (one.store().await, two.store().await);
    write(&first, &mut one.client().await, &[due(event())]).await;
    assert!(second.claim(&by("a")).await.unwrap().rows.is_empty());
    let claim = Claim { limit: 10, ..by("a") };
    assert_eq!(first.claim(&claim).await.unwrap().rows.len(), 1);
}

/// What we add to a transaction must not make it fail where it would not have failed without us.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn serializable_writers_do_not_fail_each_other_through_the_outbox() {
    let place = Place::new();
    let store = place.store().await;
    let ringing = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                store.arm().await.unwrap();
                store.disarm().await.unwrap();
            }
        }
    });
    let mut writers = Vec::new();
    for _ in 0..4 {
        let (store, mut client) = (store.clone(), place.client().await);
        writers.push(tokio::spawn(async move {
            for _ in 0..50 {
                let builder = client.build_transaction();
                let tx = builder.isolation_level(IsolationLevel::Serializable).start().await;
                store.commit(tx.unwrap(), &[due(event())]).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    ringing.abort();
    assert_eq!(place.rows().await, 200);
}
