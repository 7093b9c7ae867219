use sendoff_engine::journal::publish::{PublishOptions, Publishing, Which};
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
