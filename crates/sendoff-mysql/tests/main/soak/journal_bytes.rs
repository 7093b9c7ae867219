//! A journal of large facts: in little memory, and over a slow line.

use std::env;
use std::time::Duration;

use sendoff_engine::NodeOptions;
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::PublishOptions;
use sendoff_mysql::{JournalOptions, MysqlJournal};
use sendoff_testkit::journal::large::{
    PEAK, PLENTY, all_is_published_in_order, append_large, peak_kib,
};
use sendoff_testkit::process::{Node, say};
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::soak;

use crate::journal::journal;
use crate::place::{MARIADB, Place, by_way_of, port};

/// Not a test of its own: this program again, in a process whose memory is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publisher() {
    let Ok(count) = env::var("SENDOFF_TEST_FACTS") else { return };
    let store = {
        let url = env::var("SENDOFF_TEST_URL").unwrap();
        MysqlJournal::connect_with(&url, JournalOptions::default()).await.unwrap()
    };
    let (count, options) = (count.parse().unwrap(), PublishOptions::default());
    all_is_published_in_order(&Journal::new(store), count, options).await;
    say(&format!("peak {}", peak_kib()));
}

/// G7: the window is bounded in bytes, and so is whatever is on its way into it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_facts_are_published_in_order_in_little_memory() {
    let place = Place::on(MARIADB).await;
    let journal = journal(&place).await;
    let count = soak::amount(250, 1_000);
    append_large(&journal, count, 1_000_000).await;
    let told = [("SENDOFF_TEST_FACTS", &*count.to_string()), ("SENDOFF_TEST_URL", &place.url)];
    let node = Node::start("soak::journal_bytes::publisher", &told);
    let peak: u64 = node.says_within(PLENTY, "peak").parse().unwrap();
    assert!(peak <= PEAK, "{peak} KiB for {count} facts of 1 MB");
}

/// I11: what cannot be carried in the time of one statement is asked for by halves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_facts_are_published_in_order_over_a_slow_line() {
    let place = Place::on(MARIADB).await;
    let writer = journal(&place).await;
    let (count, rate) = (soak::amount(24, 1_000), soak::amount(6_000_000, 20_000_000));
    append_large(&writer, count, 500_000).await;
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let url = by_way_of(&place.url, &proxy);
    let store = MysqlJournal::connect_with(&url, JournalOptions::default()).await.unwrap();
    proxy.slow_down(rate);
    let limit = soak::lasting(Duration::from_millis(700), Duration::from_secs(5));
    let options = PublishOptions {
        node: NodeOptions { store_timeout: Some(limit), ..NodeOptions::default() },
        ..PublishOptions::default()
    };
    all_is_published_in_order(&Journal::new(store), count, options).await;
}
