//! How soon sleeping nodes begin with what others write, and how quiet idle ones are.

use mysql_async::prelude::Queryable;
use sendoff_engine::journal::Journal;
use sendoff_mysql::{MysqlJournal, MysqlStore};
use sendoff_testkit::waking::{
    Bounds, Quiet, a_publisher_is_woken, an_idle_publisher_is_quiet, an_outbox_is_woken,
    idle_nodes_are_quiet,
};
use tokio::sync::Mutex;

use crate::journal::restart::started;
use crate::place::{MARIADB, MYSQL, Place, connect, due, write};

/// The server counts every statement of a text: a round of a publishing node, two a second, is eight of them
/// in three round trips.
const QUIET: Quiet = Quiet { outbox: 4.0, publishing: 20.0 };

async fn outbox(server: &str) {
    let place = Place::on(server).await;
    let (store, writer, mut conn) = (place.store().await, place.store().await, place.conn().await);
    let commit = async |event| drop(write(&writer, &mut conn, &[due(event)]).await);
    an_outbox_is_woken(store, Bounds::LOOKS, commit).await;
}

async fn publisher(server: &str) {
    let place = Place::on(server).await;
    let journal = async || {
        let store = MysqlJournal::connect(&place.url).await.unwrap();
        store.migrate().await.unwrap();
        Journal::new(store)
    };
    a_publisher_is_woken(&journal().await, &journal().await, Bounds::LOOKS).await;
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
    let Some((server, url, log)) = started().await else { return };
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
    an_idle_publisher_is_quiet(&log, QUIET, asked).await;
}
