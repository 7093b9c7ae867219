//! A journal of large facts: in little memory, and over a slow line.

use std::env;

use sendoff_postgres::PostgresJournal;
use sendoff_testkit::journal::large;
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::soak;

use crate::journal::{journal, options};
use crate::place::{Place, by_way_of, port};

/// Not a test of its own: this program again, in a process whose memory is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publisher() {
    let Ok(count) = env::var(large::FACTS) else { return };
    let store = {
        let url = env::var("SENDOFF_TEST_URL").unwrap();
        let place = Place::in_schema(url, env::var("SENDOFF_TEST_SCHEMA").unwrap());
        let store = PostgresJournal::connect_with(&place.url, options(&place)).await.unwrap();
        // The schema is somebody else's.
        std::mem::forget(place);
        store
    };
    large::publish_and_say_the_peak(store, &count).await;
}

/// G7: the window is bounded in bytes, and so is whatever is on its way into it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_facts_are_published_in_order_in_little_memory() {
    let place = Place::new();
    let journal = journal(&place).await;
    let told = [("SENDOFF_TEST_URL", &*place.url), ("SENDOFF_TEST_SCHEMA", &place.schema)];
    large::is_published_in_little_memory(&journal, "soak::journal_bytes::publisher", &told).await;
}

/// I11: what cannot be carried in the time of one statement is asked for by halves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_facts_are_published_in_order_over_a_slow_line() {
    let place = Place::new();
    let writer = journal(&place).await;
    let count = soak::amount(24, 1_000);
    large::append_large(&writer, count, 500_000).await;
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let url = by_way_of(&place.url, &proxy);
    let store = PostgresJournal::connect_with(&url, options(&place)).await.unwrap();
    large::is_published_over_a_slow_line(store, &proxy, count).await;
}
