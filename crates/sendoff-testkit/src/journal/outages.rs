//! A journal that is appended to and published while its server goes down and comes back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::journal::{Fact, Topic};
use sendoff_engine::journal::publish::{PairOptions, PublishOptions, PublishStore, Publishing};
use sendoff_engine::journal::{Journal, JournalStore};
use tokio::task::JoinSet;

use super::latch::Latch;
use crate::wait::within;

const WRITERS: usize = 3;
/// How many facts are appended before each outage, and after the last.
const BETWEEN: usize = 40;
const PLENTY: Duration = Duration::from_secs(120);

/// Positions that somebody was told of.
type Told = Arc<Mutex<BTreeSet<u64>>>;

/// Appends and publishes while `strike` takes the server down and up again, so many times.
///
/// # Panics
///
/// Where anything stands, is missing, or came for the first time after a later one.
pub async fn all_is_published_through_outages<S: PublishStore>(
    journal: &Journal<S>,
    outages: u32,
    mut strike: impl FnMut(),
) {
    let (latch, told, stop) = (Latch::new("p"), Told::default(), Arc::new(AtomicBool::new(false)));
    let topic = Topic::builder("everything").build().expect("a topic");
    let often = PairOptions { interval: Duration::from_millis(20), ..PairOptions::default() };
    let options = PublishOptions {
        // A node whose renewals take longer than two of these leads nothing: room for a slow disk.
        renew: Duration::from_secs(1),
        lease: Duration::from_secs(6),
        ..PublishOptions::default()
    };
    let pair = Publishing::builder(journal).options(options);
    let pair = pair.pair_with(&topic, latch.publisher(), often);
    let node = pair.start().await.expect("publishing starts");
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(write(journal.clone(), Arc::clone(&told), Arc::clone(&stop)));
    }
    let count = || told.lock().unwrap_or_else(PoisonError::into_inner).len();
    for outage in 0..=outages {
        let (appended, published) = (count() + BETWEEN, latch.distinct().len() + BETWEEN / 2);
        let goes_on = async || count() >= appended && latch.distinct().len() >= published;
        within(PLENTY, &format!("it goes on after outage {outage}"), goes_on).await;
        if outage < outages {
            strike();
        }
    }
    stop.store(true, Ordering::SeqCst);
    while writers.join_next().await.is_some() {}
    let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let published = || latch.distinct().iter().map(|position| position.get()).collect();
    let all = async || told.is_subset(&published());
    within(PLENTY, "everything is published", all).await;
    node.close().await;
    let mut seen = BTreeSet::new();
    let first: Vec<_> = latch.positions().into_iter().filter(|at| seen.insert(*at)).collect();
    assert!(first.is_sorted(), "first deliveries in order: {first:?}");
}

async fn write<S: JournalStore>(journal: Journal<S>, told: Told, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let fact = Fact::builder(("moved", "{}")).build().expect("a fact");
        match journal.append([fact]).await {
            Ok(receipts) => told
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(receipts.iter().map(|receipt| receipt.position.get())),
            // The server is down; it may or may not be there.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
