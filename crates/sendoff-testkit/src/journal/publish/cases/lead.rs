//! One leader for all pairs, and what is measured of each.

use sendoff_core::Failure;
use sendoff_core::journal::publish::Leadership;
use sendoff_engine::journal::publish::{PublishOptions, Publishing, Which};

use super::{append, builder, mortal, node_with, numbers, pair, stored, watched};
use crate::journal::{Latch, PublishHarness, Rounds};
use crate::wait::eventually;

async fn leads(node: &Publishing, pairs: usize) {
    let what = format!("{pairs} pairs are led");
    eventually(&what, async || node.statistics().leading == pairs).await;
}

/// Holds J8, J11 and J12: one leads all, and when it is dead the next does.
pub async fn one_leads_all_where_that_is_asked_for(harness: impl PublishHarness) {
    let journal = harness.journal();
    let latches = ["a", "b", "c"].map(Latch::new);
    let all: Vec<_> = latches.iter().collect();
    let options = PublishOptions { leadership: Leadership::Global, ..mortal() };
    let first = node_with(builder(journal).options(options.clone()), &all).await;
    append(journal, 20).await;
    leads(&first, 3).await;
    let (elsewhere, rounds) = (harness.elsewhere().await, Rounds::new());
    let second = builder(&elsewhere).options(options).metrics(rounds.clone());
    let second = node_with(second, &all).await;
    for name in ["a", "b", "c"] {
        stored(journal, name, 20).await;
    }
    rounds.pass_idle().await;
    assert_eq!((first.statistics().leading, second.statistics().leading), (3, 0));
    drop(first);
    append(journal, 20).await;
    for latch in &latches {
        latch.wait_for(40).await;
        assert_eq!(latch.positions(), numbers(1..=40));
    }
    leads(&second, 3).await;
    let counted = rounds.counters.values();
    assert_eq!((counted.pairs_led, counted.pairs[&pair("a")].failovers), (3, 1));
    assert_eq!(second.statistics().failovers, 3);
    second.close().await;
    assert_eq!(rounds.counters.values().pairs[&pair("a")].released, 1);
}

/// Holds J11: leadership, errors and lag of each pair, which is right also while all of them are paused and
/// others append.
pub async fn leadership_errors_and_lag_are_measured_for_each_pair(harness: impl PublishHarness) {
    let journal = harness.journal();
    let (well, ill) = (Latch::new("well"), Latch::new("ill"));
    ill.refuse(|_| Some(Failure::retry("no")));
    let (node, rounds) = watched(journal, &[&well, &ill]).await;
    append(journal, 10).await;
    stored(journal, "well", 10).await;
    let counted = |name| rounds.counters.values().pairs[&pair(name)];
    eventually("it fails", async || counted("ill").failed > 2).await;
    rounds.pass(&pair("well")).await;
    assert_eq!(
        (counted("well").published, counted("well").failed, counted("well").lag),
        (10, 0, 0)
    );
    assert_eq!((counted("ill").published, counted("ill").lag), (0, 10));
    assert_eq!((counted("ill").taken, counted("ill").failovers), (1, 0));
    assert_eq!(rounds.counters.values().pairs_led, 2);
    journal.publishers().pause(&Which::all()).await.unwrap();
    rounds.pass(&pair("well")).await;
    append(&harness.elsewhere().await, 10).await;
    rounds.pass(&pair("well")).await;
    assert_eq!((counted("well").lag, counted("ill").lag), (10, 20));
    node.close().await;
    assert_eq!((counted("well").released, rounds.counters.values().pairs_led), (1, 0));
    assert_eq!(node.statistics().leading, 0);
}
