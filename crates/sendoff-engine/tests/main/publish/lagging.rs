use sendoff_core::journal::{Fact, Topic};
use sendoff_engine::journal::publish::{PublishOptions, Publishing};
use sendoff_testkit::journal::Latch;
use tokio::time::Instant;

use super::{append, everything, journal};
use crate::SECOND;

/// A window that everything here lies before.
fn small_window() -> PublishOptions {
    PublishOptions { window_rows: 50, ..PublishOptions::default() }
}

/// A node that starts where a long log is begins at once, and what is not for a pair costs it no
/// pause, however far behind it is.
#[tokio::test(start_paused = true)]
async fn a_pair_that_lags_waits_for_nothing() {
    let (journal, rare, all) = (journal(), Latch::new("rare"), Latch::new("all"));
    append(&journal, 3_000).await;
    journal.append([Fact::builder(("rare", "{}"))]).await.unwrap();
    append(&journal, 100).await;
    let begun = Instant::now();
    let topic = Topic::builder("rare").types(["rare"]).build().unwrap();
    let node = Publishing::builder(&journal)
        .options(small_window())
        .pair(&topic, rare.publisher())
        .pair(&everything(), all.publisher())
        .start()
        .await
        .unwrap();
    rare.wait_for(1).await;
    all.wait_for(3_101).await;
    assert!(begun.elapsed() < SECOND / 4, "{:?}", begun.elapsed());
    let positions = all.positions();
    assert!(positions.windows(2).all(|two| two[0] < two[1]), "in order, each once");
    node.close().await;
}
