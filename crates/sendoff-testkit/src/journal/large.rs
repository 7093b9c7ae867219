//! Facts that are large, published.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::journal::{Fact, Topic};
use sendoff_core::{Delivery, Event};
use sendoff_engine::NodeOptions;
use sendoff_engine::journal::publish::{PairOptions, PublishOptions, PublishStore, Publishing};
use sendoff_engine::journal::{Journal, JournalStore};
use sendoff_engine::sink::BatchSink;

use crate::process::{Node, say};
use crate::proxy::Proxy;
use crate::soak;
use crate::wait::within;

/// A fact of so many bytes.
///
/// # Panics
///
/// Where no fact may be as large.
pub fn large(bytes: usize) -> Fact {
    let event = Event::builder("large").bytes(vec![b'x'; bytes]);
    Fact::builder(event).build().expect("a fact of this size")
}

/// By which a publisher in another process is told how many facts there are.
pub const FACTS: &str = "SENDOFF_TEST_FACTS";
/// How long publishing may take.
const PLENTY: Duration = Duration::from_secs(300);
/// The most memory that publishing may take, in KiB: 200 MB.
const PEAK: u64 = 195_312;

/// Appends facts of so many bytes each.
///
/// # Panics
///
/// Where the journal refuses one.
pub async fn append_large<S: JournalStore>(journal: &Journal<S>, count: u64, bytes: usize) {
    for _ in 0..count {
        journal.append([large(bytes)]).await.expect("it is appended");
    }
}

/// Publishes the first so many facts of a journal.
///
/// # Panics
///
/// Where one is missing, or came for the first time after a later one.
pub async fn all_is_published_in_order<S: PublishStore>(
    journal: &Journal<S>,
    count: u64,
    options: PublishOptions,
) {
    let seen = Arc::new(Mutex::new((BTreeSet::new(), Vec::new())));
    let publisher = {
        let seen = Arc::clone(&seen);
        BatchSink::new("large", move |deliveries: Vec<Delivery>| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (known, in_order) = &mut *seen;
            for position in deliveries.iter().filter_map(Delivery::position) {
                if known.insert(position.get()) {
                    in_order.push(position.get());
                }
            }
            async { Ok(()) }
        })
    };
    let topic = Topic::builder("everything").build().expect("a topic");
    let often = PairOptions { interval: Duration::from_millis(20), ..PairOptions::default() };
    let pair = Publishing::builder(journal).options(options);
    let node = pair.pair_with(&topic, Arc::new(publisher), often).start().await;
    let node = node.expect("publishing starts");
    let first = || seen.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
    within(PLENTY, "everything is published", async || first().len() as u64 >= count).await;
    node.close().await;
    assert_eq!(first(), (1..=count).collect::<Vec<_>>(), "in order, none left out");
}

/// Plays the node of [`is_published_in_little_memory`]: publishes what it was told to, and says how much
/// memory that took.
///
/// # Panics
///
/// As [`all_is_published_in_order`].
pub async fn publish_and_say_the_peak<S: PublishStore>(store: S, count: &str) {
    let count = count.parse().expect("a number");
    all_is_published_in_order(&Journal::new(store), count, PublishOptions::default()).await;
    say(&format!("peak {}", peak_kib()));
}

/// Has another process publish so many facts of a megabyte each, by the test `publisher` of this program,
/// which is told how many and these things.
///
/// # Panics
///
/// Where that takes more memory than `PEAK`.
pub async fn is_published_in_little_memory<S: JournalStore>(
    journal: &Journal<S>,
    publisher: &str,
    told: &[(&str, &str)],
) {
    let count = soak::amount(250, 1_000);
    append_large(journal, count, 1_000_000).await;
    let facts = count.to_string();
    let node = Node::start(publisher, &[&[(FACTS, &*facts)], told].concat());
    let peak: u64 = node.says_within(PLENTY, "peak").parse().expect("a number");
    let said = format!("{peak} KiB for {count} facts of 1 MB");
    // For people, who read it in a soak.
    let _ = writeln!(std::io::stderr(), "{said}");
    assert!(peak <= PEAK, "{said}");
}

/// Publishes so many facts over a line that carries few bytes a second.
///
/// # Panics
///
/// As [`all_is_published_in_order`].
pub async fn is_published_over_a_slow_line<S: PublishStore>(store: S, proxy: &Proxy, count: u64) {
    proxy.slow_down(soak::amount(6_000_000, 20_000_000));
    let limit = soak::lasting(Duration::from_millis(700), Duration::from_secs(5));
    let options = PublishOptions {
        node: NodeOptions { store_timeout: Some(limit), ..NodeOptions::default() },
        ..PublishOptions::default()
    };
    all_is_published_in_order(&Journal::new(store), count, options).await;
}

/// The most memory this process ever had, in KiB.
///
/// # Panics
///
/// Where the system does not say.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system says");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let digits = peak.expect("a peak").trim().trim_end_matches("kB").trim();
    digits.parse().expect("a number")
}
