//! Pausing and resuming pairs while a node works on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{Mode, PairOptions, PublishOptions, Publishing, Which};
use sendoff_engine::sink::BatchSink;
use sendoff_testkit::journal::Latch;
use tokio::time::Instant;

use super::{MINUTE, append, everything, journal, stored};
use crate::SECOND;

/// Holds J9: whoever operates through the journal that a node works with does not wait for its rounds.
#[tokio::test(start_paused = true)]
async fn what_is_changed_in_the_same_process_is_found_at_once() {
    let (journal, latch) = (journal(), Latch::new("p"));
    let seldom = PublishOptions { renew: MINUTE, lease: 4 * MINUTE, ..PublishOptions::default() };
    let pairs =
        Publishing::builder(&journal).options(seldom).pair(&everything(), latch.publisher());
    let node = pairs.start().await.unwrap();
    append(&journal, 10).await;
    stored(&journal, "p", 10).await;
    let begun = Instant::now();
    let publishers = journal.publishers();
    publishers.pause(&Which::all()).await.unwrap();
    tokio::time::sleep(SECOND).await;
    append(&journal, 10).await;
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(latch.positions().len(), 10);
    publishers.resume(&Which::all()).await.unwrap();
    latch.wait_for(20).await;
    assert!(begun.elapsed() < MINUTE, "before the next round");
    node.close().await;
}

/// Holds J9: another process that pauses a publisher is found with the next cursor that is written.
#[tokio::test(start_paused = true)]
async fn what_is_paused_elsewhere_stops_within_a_few_batches() {
    let (journal, batches) = (journal(), Arc::new(AtomicUsize::new(0)));
    append(&journal, 1_000).await;
    let seldom = PublishOptions { renew: MINUTE, lease: 4 * MINUTE, ..PublishOptions::default() };
    let one_by_one = PairOptions { mode: Mode::Single, ..PairOptions::default() };
    let counted = Arc::clone(&batches);
    let publisher = BatchSink::new("p", move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(SECOND / 10).await;
            Ok(())
        }
    });
    let pairs = Publishing::builder(&journal).options(seldom);
    let node =
        pairs.pair_with(&everything(), Arc::new(publisher), one_by_one).start().await.unwrap();
    tokio::time::sleep(3 * SECOND).await;
    let elsewhere = Journal::new(journal.store().clone());
    elsewhere.publishers().pause(&Which::all()).await.unwrap();
    let before = batches.load(Ordering::Relaxed);
    tokio::time::sleep(10 * SECOND).await;
    let after = batches.load(Ordering::Relaxed);
    assert!(before > 10 && after <= before + 1, "{before} batches, and then {after}");
    node.close().await;
}
