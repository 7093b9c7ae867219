//! Pairs that are far from the journal's end.

use std::sync::{Arc, Mutex};

use sendoff_core::journal::publish::Poison;
use sendoff_core::journal::{Fact, Topic};
use sendoff_core::{Delivery, Failure, Stopped};
use sendoff_engine::RetryOptions;
use sendoff_engine::journal::publish::{PairOptions, PublishOptions, Publishing, Which};
use sendoff_engine::sink::BatchSink;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;
use tokio::time::Instant;

use super::{MINUTE, append, everything, journal};
use crate::SECOND;

/// A window that everything here lies before.
fn small_window() -> PublishOptions {
    PublishOptions { window_rows: 50, ..PublishOptions::default() }
}

/// A node that starts where a long log is begins at once, and what is not for a pair costs it no
/// pause, however far it lags.
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

/// Holds J6: what is parked far before the window takes nothing along that lies between them.
#[tokio::test(start_paused = true)]
async fn poison_far_from_the_end_hides_nothing() {
    let journal = journal();
    let rare = || [Fact::builder(("rare", "{}"))];
    journal.append(rare()).await.unwrap();
    journal.append(rare()).await.unwrap();
    append(&journal, 2_500).await;
    journal.append(rare()).await.unwrap();
    append(&journal, 2_500).await;
    journal.append(rare()).await.unwrap();
    let published = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&published);
    let publisher = BatchSink::new("p", move |deliveries: Vec<Delivery>| {
        let seen = Arc::clone(&seen);
        async move {
            for (done, delivery) in deliveries.iter().enumerate() {
                let position = delivery.position().unwrap().get();
                if position <= 2 {
                    return Err(Stopped::after(done, Failure::retry("it is too large")));
                }
                seen.lock().unwrap().push(position);
            }
            Ok(())
        }
    });
    let topic = Topic::builder("rare").types(["rare"]).build().unwrap();
    let options = PairOptions {
        retry: RetryOptions { max_attempts: 2, ..RetryOptions::default() },
        poison: Poison::Park,
        ..PairOptions::default()
    };
    let node = Publishing::builder(&journal)
        .options(small_window())
        .pair_with(&topic, Arc::new(publisher), options)
        .start()
        .await
        .unwrap();
    let all = async || published.lock().unwrap().len() >= 2;
    within(2 * MINUTE, "all that can be published", all).await;
    assert_eq!(*published.lock().unwrap(), [2_503, 5_004]);
    let parked = journal.publishers().parked(&Which::all(), None, 10).await.unwrap();
    assert_eq!(parked.iter().map(|parked| parked.position.get()).collect::<Vec<_>>(), [1, 2]);
    node.close().await;
}

/// Holds J3: pairs that waited for their targets and lag at different places do not take what was read for
/// one another away for ever.
#[tokio::test(start_paused = true)]
async fn pairs_that_lag_after_an_outage_all_go_on() {
    let journal = journal();
    append(&journal, 2_000).await;
    let latches = [400, 900, 1_400].map(|at| (at, Latch::new(format!("stops at {at}"))));
    let ahead = Latch::new("ahead");
    let mut builder = Publishing::builder(&journal)
        .options(small_window())
        .pair(&everything(), ahead.publisher());
    for (at, latch) in &latches {
        let at = *at;
        latch.refuse(move |fact| (fact.position.get() >= at).then(|| Failure::retry("away")));
        builder = builder.pair(&everything(), latch.publisher());
    }
    let node = builder.start().await.unwrap();
    ahead.wait_for(2_000).await;
    tokio::time::sleep(10 * MINUTE).await;
    latches.iter().for_each(|(_, latch)| latch.accept());
    for (_, latch) in &latches {
        latch.wait_for(2_000).await;
        assert_eq!(latch.positions(), (1..=2_000).collect::<Vec<_>>());
    }
    node.close().await;
}
