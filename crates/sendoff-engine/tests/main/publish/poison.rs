//! Failures: outages end by themselves, poison is set aside, and nobody else notices.

use std::time::Duration;

use sendoff_core::Failure;
use sendoff_core::journal::Recorded;
use sendoff_core::journal::publish::{CursorStatus, Poison};
use sendoff_engine::journal::publish::{PairOptions, Publishing, Which};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;

use super::{MINUTE, append, cursor, everything, journal, node, pair, stored};
use crate::SECOND;

fn at(position: u64, failure: fn() -> Failure) -> impl Fn(&Recorded) -> Option<Failure> {
    move |fact| (fact.position.get() == position).then(failure)
}

/// Holds J3: a target that is down for five minutes, whether it says so or every fact fails.
#[tokio::test(start_paused = true)]
async fn a_pair_goes_on_by_itself_after_an_outage() {
    let journal = journal();
    let (silent, unwell, fine) = (Latch::new("silent"), Latch::new("unwell"), Latch::new("fine"));
    silent.refuse(|_| Some(Failure::retry("connection refused")));
    unwell.set_healthy(false);
    append(&journal, 150).await;
    let node = Publishing::builder(&journal)
        .pair(&everything(), silent.publisher())
        .pair(&everything(), unwell.publisher())
        .pair(&everything(), fine.publisher())
        .start()
        .await
        .unwrap();
    fine.wait_for(150).await;
    tokio::time::sleep(5 * MINUTE).await;
    let down = cursor(&journal, "silent").await;
    assert_eq!((down.status, down.position.get()), (CursorStatus::Active, 0));
    assert!(down.errors > 0 && down.last_error.as_deref() == Some("connection refused"));
    append(&journal, 50).await;
    silent.accept();
    unwell.set_healthy(true);
    let healed = tokio::time::Instant::now();
    silent.wait_for(200).await;
    unwell.wait_for(200).await;
    assert!(healed.elapsed() <= 2 * MINUTE, "{:?}", healed.elapsed());
    let all: Vec<_> = (1..=200).collect();
    assert_eq!((silent.positions(), unwell.positions()), (all.clone(), all.clone()));
    assert_eq!(fine.positions(), all);
    stored(&journal, "silent", 200).await;
    let (parked, up) = (node.statistics().parked, cursor(&journal, "silent").await);
    assert_eq!((parked, up.errors, up.last_error), (0, 0, None));
    node.close().await;
}

/// What its publisher calls hopeless is set aside at once, and can be tried again or forgotten.
#[tokio::test(start_paused = true)]
async fn poison_is_set_aside_and_the_rest_goes_on() {
    let (journal, latch) = (journal(), Latch::new("p"));
    latch.refuse(at(42, || Failure::dead("no such account")));
    append(&journal, 100).await;
    let node = node(&journal, &latch, PairOptions::default()).await;
    latch.wait_for(99).await;
    stored(&journal, "p", 100).await;
    assert_eq!(latch.positions(), (1..=100).filter(|n| *n != 42).collect::<Vec<_>>());
    let publishers = journal.publishers();
    let parked = publishers.parked(&Which::all(), None, 10).await.unwrap();
    assert_eq!(parked.len(), 1);
    assert_eq!((parked[0].position.get(), &parked[0].pair), (42, &pair("p")));
    assert_eq!(parked[0].error.as_deref(), Some("no such account"));
    // It is tried again by itself.
    let calls = latch.calls();
    within(5 * MINUTE, "a retry", async || latch.calls() > calls).await;
    latch.accept();
    assert_eq!(publishers.retry_parked(&Which::all(), None).await.unwrap(), 1);
    latch.wait_for(100).await;
    assert_eq!(latch.positions().last(), Some(&42));
    let none = async || publishers.parked(&Which::all(), None, 10).await.unwrap().is_empty();
    within(MINUTE, "nothing is set aside", none).await;
    node.close().await;
}

/// What only fails is poison when something behind it does not; else it would be an outage.
#[tokio::test(start_paused = true)]
async fn a_fact_that_fails_while_others_do_not_is_poison() {
    let (journal, latch) = (journal(), Latch::new("p"));
    latch.refuse(|fact| {
        [3, 4].contains(&fact.position.get()).then(|| Failure::retry("it did not work"))
    });
    append(&journal, 4).await;
    let options = PairOptions { max_attempts: 3, ..PairOptions::default() };
    let node = node(&journal, &latch, options).await;
    latch.wait_for(2).await;
    // Nothing is behind them that could tell.
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(node.statistics().parked, 0);
    append(&journal, 6).await;
    latch.wait_for(8).await;
    assert_eq!(latch.positions(), [1, 2, 5, 6, 7, 8, 9, 10]);
    stored(&journal, "p", 10).await;
    let publishers = journal.publishers();
    let parked = publishers.parked(&Which::all(), None, 10).await.unwrap();
    assert_eq!(parked.iter().map(|p| p.position.get()).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(publishers.discard_parked(&Which::pair(&pair("p")), None).await.unwrap(), 2);
    node.close().await;
}

/// Holds J9: a pair that must stay in order stops, and is reset.
#[tokio::test(start_paused = true)]
async fn a_pair_in_order_stops_as_failed_and_goes_on_when_it_is_reset() {
    let (journal, latch) = (journal(), Latch::new("p"));
    latch.refuse(at(3, || Failure::dead("never")));
    append(&journal, 5).await;
    let poison = Poison::Fail { after: 10 * MINUTE };
    let node = node(&journal, &latch, PairOptions { poison, ..PairOptions::default() }).await;
    let failed = async || cursor(&journal, "p").await.status == CursorStatus::Failed;
    within(MINUTE, "FAILED", failed).await;
    let stopped = cursor(&journal, "p").await;
    assert_eq!((stopped.position.get(), stopped.last_error.as_deref()), (2, Some("never")));
    tokio::time::sleep(MINUTE).await;
    assert_eq!(latch.positions(), [1, 2]);
    latch.accept();
    let publishers = journal.publishers();
    assert_eq!(publishers.resume(&Which::all()).await.unwrap(), 1);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(latch.positions(), [1, 2], "resuming is for what was paused");
    assert_eq!(publishers.reset(&Which::publisher("p")).await.unwrap(), 1);
    latch.wait_for(5).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5]);
    stored(&journal, "p", 5).await;
    assert_eq!(cursor(&journal, "p").await.errors, 0);
    node.close().await;
}

/// A publisher that panics or hangs has failed, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_panic_and_a_hang_are_failures() {
    use sendoff_engine::journal::publish::FnPublisher;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    let (journal, fine) = (journal(), Latch::new("fine"));
    append(&journal, 3).await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let wild = FnPublisher::new("wild", move |_| {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            match run {
                0 => panic!("wild"),
                1 => std::future::pending().await,
                _ => Ok(()),
            }
        }
    });
    let options = PairOptions { publish_timeout: SECOND, ..PairOptions::default() };
    let node = Publishing::builder(&journal)
        .pair_with(&everything(), Arc::new(wild), options)
        .pair(&everything(), fine.publisher())
        .start()
        .await
        .unwrap();
    stored(&journal, "wild", 3).await;
    stored(&journal, "fine", 3).await;
    assert!(runs.load(Ordering::Relaxed) >= 3);
    tokio::time::sleep(Duration::ZERO).await;
    node.close().await;
}
