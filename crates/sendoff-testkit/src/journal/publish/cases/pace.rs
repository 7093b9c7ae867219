//! How often pairs look, and what wakes them.

use std::time::Duration;

use sendoff_core::journal::publish::IdleBackoff;
use sendoff_engine::journal::publish::PairOptions;

use super::{HOUR, append, builder, everything, node, numbers, often, stored};
use crate::journal::{Latch, PublishHarness};
use crate::wait::eventually;

/// Holds J7: each pair looks when its interval is over; what another's look brought, it gets if it is eager.
pub async fn a_pair_has_its_own_interval(harness: impl PublishHarness) {
    let journal = harness.journal();
    let (quick, slow, eager) = (Latch::new("quick"), Latch::new("slow"), Latch::new("eager"));
    let hourly = PairOptions { interval: HOUR, ..often() };
    append(journal, 1).await;
    let node = builder(journal)
        .pair_with(&everything(), quick.publisher(), PairOptions { eager: false, ..often() })
        .pair_with(&everything(), eager.publisher(), hourly.clone())
        .pair_with(&everything(), slow.publisher(), PairOptions { eager: false, ..hourly })
        .start()
        .await
        .unwrap();
    for name in ["quick", "slow", "eager"] {
        stored(journal, name, 1).await;
    }
    // By another process: nothing but the interval finds it.
    append(&harness.elsewhere().await, 9).await;
    for latch in [&quick, &eager] {
        latch.wait_for(10).await;
        assert_eq!(latch.positions(), numbers(1..=10));
    }
    stored(journal, "eager", 10).await;
    assert_eq!(slow.positions(), [1]);
    node.close().await;
}

/// Holds J7: what is appended through the same journal is found at once.
pub async fn what_is_appended_here_is_published_at_once(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    let hourly = PairOptions { interval: HOUR, ..often() };
    let pair = builder(journal).pair_with(&everything(), latch.publisher(), hourly);
    let node = pair.start().await.unwrap();
    for round in 1..=5 {
        append(journal, 2).await;
        latch.wait_for(round * 2).await;
    }
    assert_eq!(latch.positions(), numbers(1..=10));
    node.close().await;
}

/// Holds J7: after some looks in vain a pair looks less often, and another that does not slow down finds
/// what it does not see yet.
pub async fn a_pair_that_finds_nothing_looks_less_and_less(harness: impl PublishHarness) {
    let journal = harness.journal();
    let (steady, idle) = (Latch::new("steady"), Latch::new("idle"));
    let lazy = PairOptions { eager: false, interval: Duration::from_millis(1), ..often() };
    let steep = IdleBackoff { after: 0, factor: u32::MAX, longest: HOUR };
    let node = builder(journal)
        .pair_with(&everything(), steady.publisher(), lazy.clone())
        .pair_with(&everything(), idle.publisher(), PairOptions { idle: steep, ..lazy })
        .start()
        .await
        .unwrap();
    let elsewhere = harness.elsewhere().await;
    // Whatever comes while it begins, it may find.
    let unseen = async || {
        let (before, seen) = (idle.positions(), steady.positions().len());
        for more in 1..=5 {
            append(&elsewhere, 1).await;
            steady.wait_for(seen + more).await;
        }
        idle.positions() == before
    };
    eventually("only the steady one looks", unseen).await;
    node.close().await;
}

/// Appends of another process are found within the interval.
pub async fn what_another_process_appends_is_published(harness: impl PublishHarness) {
    let latch = Latch::new("p");
    let node = node(harness.journal(), &[&latch]).await;
    let elsewhere = harness.elsewhere().await;
    for round in 1..=5 {
        append(&elsewhere, 10).await;
        latch.wait_for(round * 10).await;
    }
    assert_eq!(latch.positions(), numbers(1..=50));
    node.close().await;
}
