//! Outages of a publisher's target: nothing is parked, and everything comes in order, soon after.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::journal::Topic;
use sendoff_core::journal::publish::{CursorStatus, Poison};
use sendoff_core::{Delivery, Failure, FailureClass};
use sendoff_engine::Counters;
use sendoff_engine::journal::publish::{PairOptions, Publishing, Which};
use sendoff_engine::sink::HandlerSink;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::{Log, MINUTE, append, cursor, everything, journal, stored};
use crate::SECOND;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Nothing can be told from the error.
fn opaque() -> Failure {
    Failure::from("the warehouse said no")
}

fn refused() -> Failure {
    Failure::from(io::Error::from(io::ErrorKind::ConnectionRefused))
}

/// Every policy but the default has to be asked for.
fn policies() -> [Option<Poison>; 3] {
    [None, Some(Poison::Fail { after: HOUR }), Some(Poison::Park)]
}

async fn publish(journal: &Log, latch: &Latch, poison: Option<Poison>) -> Publishing {
    let builder = Publishing::builder(journal);
    let builder = match poison {
        None => builder.pair(&everything(), latch.publisher()),
        Some(poison) => {
            let options = PairOptions { poison, ..PairOptions::default() };
            builder.pair_with(&everything(), latch.publisher(), options)
        }
    };
    builder.start().await.unwrap()
}

/// Holds J6 and J3: with every policy, whatever the errors say, and with all else as it is by default.
#[tokio::test(start_paused = true)]
async fn after_an_outage_everything_is_published_within_seconds_in_exact_order() {
    for poison in policies() {
        for failure in [opaque as fn() -> Failure, refused] {
            for outage in [SECOND, 20 * SECOND, 3 * MINUTE, 10 * MINUTE] {
                let (journal, latch) = (journal(), Latch::new("p"));
                let node = publish(&journal, &latch, poison).await;
                append(&journal, 50).await;
                latch.wait_for(50).await;
                latch.refuse(move |_| Some(failure()));
                let began = Instant::now();
                while began.elapsed() < outage {
                    append(&journal, 5).await;
                    sleep(outage / 100).await;
                }
                let published = latch.positions().len();
                assert_eq!(published, 50, "{poison:?}");
                latch.accept();
                let over = Instant::now();
                latch.wait_for(51).await;
                let first = over.elapsed();
                assert!(first <= 15 * SECOND, "{poison:?} after {outage:?}: {first:?}");
                append(&journal, 50).await;
                latch.wait_for(600).await;
                assert_eq!(latch.positions(), (1..=600).collect::<Vec<_>>(), "{poison:?}");
                assert_eq!(node.statistics().parked, 0, "{poison:?}");
                assert_eq!(journal.publishers().parked(&Which::all(), None, 9).await.unwrap(), []);
                node.close().await;
            }
        }
    }
}

/// Holds J6: by default a fact that fails, whatever its publisher says of it, keeps what comes after it
/// waiting, is tried again and again, and is followed by the others when it is published at last.
#[tokio::test(start_paused = true)]
async fn by_default_nothing_overtakes_a_fact_that_fails() {
    for failure in [opaque as fn() -> Failure, || Failure::dead("no such account")] {
        let (journal, latch) = (journal(), Latch::new("p"));
        append(&journal, 10).await;
        latch.refuse(move |fact| (fact.position.get() == 4).then(failure));
        let node = publish(&journal, &latch, None).await;
        latch.wait_for(3).await;
        sleep(HOUR).await;
        assert_eq!(latch.positions(), [1, 2, 3]);
        let waits = cursor(&journal, "p").await;
        assert_eq!((waits.status, waits.position.get()), (CursorStatus::Active, 3));
        assert!(waits.errors > 3_600 / 15 && waits.errors < 1_000, "{} tries", waits.errors);
        latch.accept();
        let mended = Instant::now();
        latch.wait_for(10).await;
        assert!(mended.elapsed() <= 15 * SECOND, "{:?}", mended.elapsed());
        assert_eq!(latch.positions(), (1..=10).collect::<Vec<_>>());
        assert_eq!(node.statistics().parked, 0);
        node.close().await;
    }
}

/// Holds J6: `Fail` stops the pair once its fact has failed for that long, and not because its target
/// said for hours that it is unavailable.
#[tokio::test(start_paused = true)]
async fn a_pair_that_may_fail_stops_when_its_fact_has_failed_for_long_enough() {
    let (journal, latch) = (journal(), Latch::new("p"));
    append(&journal, 10).await;
    latch.refuse(|fact| (fact.position.get() == 4).then(refused));
    let node = publish(&journal, &latch, Some(Poison::Fail { after: 10 * MINUTE })).await;
    sleep(HOUR).await;
    assert_eq!(cursor(&journal, "p").await.status, CursorStatus::Active);
    latch.refuse(|fact| (fact.position.get() == 4).then(opaque));
    sleep(10 * MINUTE).await;
    assert_eq!(cursor(&journal, "p").await.status, CursorStatus::Active);
    let failed = async || cursor(&journal, "p").await.status == CursorStatus::Failed;
    within(31 * SECOND, "it stops", failed).await;
    assert_eq!(latch.positions(), [1, 2, 3]);
    node.close().await;
}

/// Holds J6: also where facts are parked, the lowest is tried right before any other is, and it is parked
/// only when a later one was published after it had failed once more.
#[tokio::test(start_paused = true)]
async fn a_later_fact_is_tried_only_right_after_the_lowest_failed() {
    let journal = journal();
    append(&journal, 12).await;
    let tries = Arc::new(Mutex::new(Vec::new()));
    let down = Arc::new(AtomicBool::new(true));
    let (seen, away) = (Arc::clone(&tries), Arc::clone(&down));
    let handler = move |delivery: Delivery| {
        let position = delivery.position().unwrap().get();
        let fails = away.load(Ordering::SeqCst) || position == 2;
        seen.lock().unwrap().push((position, !fails));
        async move { if fails { Err(opaque()) } else { Ok(()) } }
    };
    let options = PairOptions { poison: Poison::Park, ..PairOptions::default() };
    let publisher = Arc::new(HandlerSink::new("p", handler));
    let node = Publishing::builder(&journal).pair_with(&everything(), publisher, options);
    let node = node.start().await.unwrap();
    sleep(30 * MINUTE).await;
    let seen = tries.lock().unwrap().clone();
    let later = seen.iter().filter(|(position, _)| *position > 1).count();
    assert!(later > 3, "others are tried, {later} times");
    for two in seen.windows(2).filter(|two| two[1].0 > 1) {
        assert_eq!(two[0].0, 1, "the lowest comes first: {seen:?}");
    }
    down.store(false, Ordering::SeqCst);
    stored(&journal, "p", 12).await;
    let parked = journal.publishers().parked(&Which::all(), None, 9).await.unwrap();
    let parked: Vec<_> = parked.iter().map(|parked| parked.position.get()).collect();
    assert_eq!(parked, [2], "it failed by itself");
    let published = tries.lock().unwrap().clone().into_iter().filter(|(_, published)| *published);
    let published: Vec<_> = published.map(|(position, _)| position).collect();
    assert_eq!(published, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    node.close().await;
}

/// Two topics of one publisher have one target: an operator sees that it is unavailable, and when it is back.
#[tokio::test(start_paused = true)]
async fn an_outage_of_a_publishers_target_is_measured() {
    let (journal, latch, counters) = (journal(), Latch::new("p"), Arc::new(Counters::default()));
    let moved = Topic::builder("moved").types(["moved"]).build().unwrap();
    let builder = Publishing::builder(&journal).metrics(counters.clone());
    let builder = builder.pair(&everything(), latch.publisher()).pair(&moved, latch.publisher());
    let node = builder.start().await.unwrap();
    let unavailable = || counters.values().unavailable.into_iter().collect::<Vec<_>>();
    for failure in [refused as fn() -> Failure, opaque] {
        latch.refuse(move |_| Some(failure()));
        append(&journal, 1).await;
        sleep(MINUTE).await;
        // What says nothing of the target is the fact's, as far as anybody knows, while it is the only one.
        let is_told = failure().class() != FailureClass::Retry;
        assert_eq!(unavailable() == ["p"], is_told, "{:?}", unavailable());
        latch.accept();
        within(MINUTE, "it is back", async || unavailable().is_empty()).await;
    }
    latch.refuse(|_| Some(refused()));
    append(&journal, 1).await;
    within(MINUTE, "it is gone", async || unavailable() == ["p"]).await;
    node.close().await;
    assert!(unavailable().is_empty(), "another node knows");
}
