//! A journal of large facts: in little memory, and over a slow line.

use std::env;

use sendoff_mysql::{JournalOptions, MysqlJournal};
use sendoff_testkit::journal::large;
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::soak;

use crate::journal::journal;
use crate::place::{MARIADB, Place, by_way_of, port};

/// Not a test of its own: this program again, in a process whose memory is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publisher() {
    let Ok(count) = env::var(large::FACTS) else { return };
    let store = {
        let url = env::var("SENDOFF_TEST_URL").unwrap();
        MysqlJournal::connect_with(&url, JournalOptions::default()).await.unwrap()
    };
    large::publish_and_say_the_peak(store, &count).await;
}

/// G7: the window is bounded in bytes, and so is whatever is on its way into it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_facts_are_published_in_order_in_little_memory() {
    let place = Place::on(MARIADB).await;
    let journal = journal(&place).await;
    let told = [("SENDOFF_TEST_URL", &*place.url)];
    large::is_published_in_little_memory(&journal, "soak::journal_bytes::publisher", &told).await;
}

/// I11: what cannot be carried in the time of one statement is asked for by halves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_facts_are_published_in_order_over_a_slow_line() {
    let place = Place::on(MARIADB).await;
    let writer = journal(&place).await;
    let count = soak::amount(24, 1_000);
    large::append_large(&writer, count, 500_000).await;
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let url = by_way_of(&place.url, &proxy);
    let store = MysqlJournal::connect_with(&url, JournalOptions::default()).await.unwrap();
    large::is_published_over_a_slow_line(store, &proxy, count).await;
}
