//! How soon sleeping nodes begin with what others write, and how quiet idle ones are.

use std::sync::atomic::{AtomicU64, Ordering};

use mysql_async::prelude::Queryable;
use sendoff_engine::journal::Journal;
use sendoff_mysql::{MysqlJournal, MysqlStore};
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::waking::{
    Bounds, Quiet, a_publisher_is_woken, an_idle_publisher_is_quiet, idle_nodes_are_quiet,
    nodes_are_woken,
};
use tokio::sync::Mutex;

use crate::journal::restart::started;
use crate::place::{MARIADB, MYSQL, Place, by_way_of, connect, due, port, write};

/// An outbox and its like are counted by the server, statement by statement; a publishing node by round
/// trips, of which three are a round, with nine statements in them.
const QUIET: Quiet = Quiet { outbox: 4.0, publishing: 9.0 };

async fn outbox(server: &str) {
    let place = Place::on(server).await;
    let (store, writer, mut conn) = (place.store().await, place.store().await, place.conn().await);
    let commit = async |event| drop(write(&writer, &mut conn, &[due(event)]).await);
    nodes_are_woken(store, Bounds::LOOKS, commit).await;
}

async fn publisher(server: &str) {
    let place = Place::on(server).await;
    let journal = async || {
        let store = MysqlJournal::connect(&place.url).await.unwrap();
        store.migrate().await.unwrap();
        Journal::new(store)
    };
    a_publisher_is_woken(&journal().await, &journal().await, Bounds::ROUNDS).await;
}

/// Holds I7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_hears_of_events_of_others() {
    outbox(MARIADB).await;
}

/// Holds I7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_on_mysql_hears_of_events_of_others() {
    outbox(MYSQL).await;
}

/// Holds I7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_hears_of_facts_of_others() {
    publisher(MARIADB).await;
}

/// Holds I7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_on_mysql_hears_of_facts_of_others() {
    publisher(MYSQL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_nodes_ask_little() {
    let Some((server, url, _)) = started().await else { return };
    let store = MysqlStore::connect(&url).await.unwrap();
    store.migrate().await.unwrap();
    let conn = Mutex::new(connect(&server.url()).await);
    let asked = async || {
        let row: (String, u64) = conn
            .lock()
            .await
            .query_first("show global status like 'Questions'")
            .await
            .unwrap()
            .unwrap();
        row.1
    };
    idle_nodes_are_quiet(&store, QUIET, asked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_publishing_node_makes_few_round_trips() {
    let place = Place::on(MARIADB).await;
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let store = MysqlJournal::connect(&by_way_of(&place.url, &proxy)).await.unwrap();
    store.migrate().await.unwrap();
    // Where a server is asked how often it was asked, that is once more.
    let times = AtomicU64::new(0);
    let asked = async || proxy.asked() + times.fetch_add(1, Ordering::SeqCst);
    an_idle_publisher_is_quiet(&Journal::new(store), QUIET, asked).await;
}
