//! How soon sleeping nodes begin with what others write, and how quiet idle ones are.

use sendoff_engine::journal::Journal;
use sendoff_postgres::{PostgresJournal, PostgresStore};
use sendoff_testkit::waking::{
    Bounds, Quiet, a_publisher_is_woken, an_idle_publisher_is_quiet, idle_nodes_are_quiet,
    nodes_are_woken,
};
use tokio_postgres::Client;

use crate::journal::{journal, options, restart::server};
use crate::place::{Place, connect, due, write};

const QUIET: Quiet = Quiet { outbox: 1.0, publishing: 9.0 };

/// Holds I7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_hears_of_events_of_others() {
    let place = Place::new();
    let (store, writer) = (place.store().await, place.store().await);
    let mut client = place.client().await;
    let commit = async |event| drop(write(&writer, &mut client, &[due(event)]).await);
    nodes_are_woken(store, Bounds::RINGS, commit).await;
}

/// Holds I7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_hears_of_facts_of_others() {
    let place = Place::new();
    let (node, other) = (journal(&place).await, journal(&place).await);
    a_publisher_is_woken(&node, &other, Bounds::RINGS).await;
}

/// Holds I7: behind a transaction pooler nobody can be rung for, and rounds see the journal's end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_without_doorbell_looks() {
    use sendoff_postgres::{Doorbell, JournalOptions, PostgresOptions};
    let place = Place::new();
    let other = journal(&place).await;
    let server = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    let silent = JournalOptions { server, ..options(&place) };
    let node = PostgresJournal::connect_with(&place.url, silent).await.unwrap();
    a_publisher_is_woken(&Journal::new(node), &other, Bounds::ROUNDS).await;
}

/// Statements up to now.
async fn asked(client: &Client) -> u64 {
    let text = "select sum(calls)::bigint from pg_stat_statements";
    let count: i64 = client.query_one(text, &[]).await.unwrap().get(0);
    u64::try_from(count).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_nodes_ask_little() {
    let counts = ["shared_preload_libraries=pg_stat_statements"];
    let Some((server, place)) = server(&counts) else { return };
    let client = connect(&server.url()).await.unwrap();
    client.batch_execute("create extension pg_stat_statements").await.unwrap();
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    store.migrate().await.unwrap();
    idle_nodes_are_quiet(&store, QUIET, async || asked(&client).await).await;
    let log = crate::journal::restart::journal(&server).await;
    an_idle_publisher_is_quiet(&log, QUIET, async || asked(&client).await).await;
    std::mem::forget(place);
}
