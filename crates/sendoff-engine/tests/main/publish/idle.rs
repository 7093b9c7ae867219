//! How often a pair looks that finds nothing.

use std::time::Duration;

use sendoff_core::journal::publish::IdleBackoff;
use sendoff_core::journal::{Fact, Topic};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{PairOptions, Publishing};
use sendoff_testkit::journal::Latch;
use tokio::time::{Instant, sleep};

use super::{Log, MINUTE, append, everything, journal};
use crate::SECOND;

/// How long it takes until what another process appends is published.
async fn found_after(elsewhere: &Log, latch: &Latch) -> Duration {
    let (before, count) = (Instant::now(), latch.positions().len());
    append(elsewhere, 1).await;
    latch.wait_for(count + 1).await;
    before.elapsed()
}

/// A pair that waits for its own looks.
fn patient() -> PairOptions {
    PairOptions { eager: false, ..PairOptions::default() }
}

async fn started(options: PairOptions) -> (Log, Latch, Publishing) {
    let (journal, latch) = (journal(), Latch::new("p"));
    let elsewhere = Journal::new(journal.store().clone());
    let pair = Publishing::builder(&journal).pair_with(&everything(), latch.publisher(), options);
    (elsewhere, latch, pair.start().await.unwrap())
}

/// Holds J7: every second; after three looks in vain less and less often, once a minute at last; and
/// every second again when something was published.
#[tokio::test(start_paused = true)]
async fn a_pair_that_finds_nothing_looks_once_a_minute_at_last() {
    let (elsewhere, latch, node) = started(patient()).await;
    sleep(2 * SECOND + SECOND / 2).await;
    assert!(found_after(&elsewhere, &latch).await <= SECOND, "nothing has slowed down yet");
    sleep(10 * MINUTE + SECOND / 2).await;
    let mut slowest = Duration::ZERO;
    for seconds in [1, 7, 13] {
        slowest = slowest.max(found_after(&elsewhere, &latch).await);
        assert!(found_after(&elsewhere, &latch).await <= SECOND, "anything published resets it");
        sleep(10 * MINUTE + seconds * SECOND).await;
    }
    assert!(slowest > 10 * SECOND && slowest <= MINUTE, "{slowest:?}");
    node.close().await;
}

/// Holds J7: however rarely it looks by itself, the next round sees that the journal is longer.
#[tokio::test(start_paused = true)]
async fn a_pair_that_is_eager_finds_it_with_the_next_round() {
    let (elsewhere, latch, node) = started(PairOptions::default()).await;
    for seconds in [1, 7, 13] {
        sleep(10 * MINUTE + seconds * SECOND + SECOND / 4).await;
        let waited = found_after(&elsewhere, &latch).await;
        assert!(waited <= SECOND / 2, "{waited:?}");
    }
    node.close().await;
}

/// Holds J7: it can be off, and an interval can be longer.
#[tokio::test(start_paused = true)]
async fn without_back_off_the_interval_stays() {
    let interval = 10 * SECOND;
    let options = PairOptions { idle: IdleBackoff::OFF, interval, ..patient() };
    let (elsewhere, latch, node) = started(options).await;
    sleep(10 * MINUTE + 3 * SECOND).await;
    for _ in 0..5 {
        let waited = found_after(&elsewhere, &latch).await;
        assert!(waited > SECOND && waited <= interval, "{waited:?}");
        sleep(13 * SECOND).await;
    }
    node.close().await;
}

/// Holds J7: what somebody else's look brought, and is not for a pair, is no look of its own in vain.
#[tokio::test(start_paused = true)]
async fn what_is_not_for_a_pair_does_not_slow_it_down() {
    let (journal, latch) = (journal(), Latch::new("p"));
    let elsewhere = Journal::new(journal.store().clone());
    let rare = Topic::builder("rare").types(["rare"]).build().unwrap();
    let pair = Publishing::builder(&journal).pair(&rare, latch.publisher());
    let node = pair.start().await.unwrap();
    sleep(SECOND).await;
    for _ in 0..20 {
        append(&journal, 1).await;
        sleep(SECOND / 100).await;
    }
    let before = Instant::now();
    elsewhere.append([Fact::builder(("rare", "{}"))]).await.unwrap();
    latch.wait_for(1).await;
    assert!(before.elapsed() <= SECOND, "{:?}", before.elapsed());
    node.close().await;
}
