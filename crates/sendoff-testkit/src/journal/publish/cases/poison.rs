//! Facts that cannot be published: parked, listed, tried again, discarded.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sendoff_core::Failure;
use sendoff_core::journal::Recorded;
use sendoff_core::journal::doctor::Tolerance;
use sendoff_core::journal::publish::{CursorStatus, Poison};
use sendoff_engine::RetryOptions;
use sendoff_engine::journal::publish::{
    PairOptions, Parked, ParkedOptions, To, UnavailableOptions, Which,
};

use super::{append, builder, cursor, everything, node, numbers, often, pair, position, stored};
use crate::journal::{Latch, PublishHarness, Rounds};
use crate::wait::eventually;

fn at(
    positions: &'static [u64],
    failure: fn() -> Failure,
) -> impl Fn(&Recorded) -> Option<Failure> {
    move |fact| positions.contains(&fact.position.get()).then(failure)
}

/// A pair that goes on without what it cannot publish.
fn parking() -> PairOptions {
    PairOptions { poison: Poison::Park, ..often() }
}

fn places(parked: &[Parked]) -> Vec<u64> {
    parked.iter().map(|parked| parked.position.get()).collect()
}

/// What its publisher calls hopeless is parked at once, is listed, and can be tried again, in
/// order, or forgotten.
pub async fn poison_is_parked_listed_retried_and_discarded(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    latch.refuse(at(&[3, 5, 7, 9], || Failure::dead("no such account")));
    append(journal, 10).await;
    let pair_of = builder(journal).pair_with(&everything(), latch.publisher(), parking());
    let node = pair_of.start().await.unwrap();
    stored(journal, "p", 10).await;
    assert_eq!(latch.positions(), [1, 2, 4, 6, 8, 10]);
    assert_eq!(node.statistics().parked, 4);
    let publishers = journal.publishers();
    let first = publishers.parked(&Which::all(), None, 2).await.unwrap();
    assert_eq!(places(&first), [3, 5]);
    assert_eq!((first[0].attempts, first[0].error.as_deref()), (1, Some("no such account")));
    assert_eq!((&first[0].pair, first[0].next_at > Some(first[0].parked_at)), (&pair("p"), true));
    let after = Some((&first[1].pair, first[1].position));
    assert_eq!(places(&publishers.parked(&Which::all(), after, 10).await.unwrap()), [7, 9]);
    let others = Which::publisher("other");
    assert_eq!(publishers.parked(&others, None, 10).await.unwrap(), []);
    assert_eq!(publishers.discard_parked(&others, None).await.unwrap(), 0);
    assert_eq!(publishers.discard_parked(&Which::all(), Some(position(7))).await.unwrap(), 1);
    assert_eq!(publishers.retry_parked(&Which::all(), Some(position(5))).await.unwrap(), 1);
    let list = async || publishers.parked(&Which::publisher("p"), None, 10).await.unwrap();
    let tried = async || list().await.iter().map(|p| p.attempts).collect::<Vec<_>>() == [1, 2, 1];
    eventually("it failed again", tried).await;
    latch.accept();
    assert_eq!(publishers.retry_parked(&Which::publisher("p"), None).await.unwrap(), 3);
    latch.wait_for(9).await;
    assert_eq!(latch.positions()[6..], [3, 5, 9]);
    eventually("nothing is parked", async || list().await.is_empty()).await;
    // All that was published is counted, also what was parked before.
    eventually("it is counted", async || node.statistics().published.events == 9).await;
    assert_eq!(cursor(journal, "p").await.position.get(), 10);
    node.close().await;
}

/// What was parked is tried again by itself, until it was tried often enough.
pub async fn what_was_parked_is_tried_again_by_itself(harness: impl PublishHarness) {
    let (journal, latch, rounds) = (harness.journal(), Latch::new("p"), Rounds::new());
    latch.refuse(at(&[2], || Failure::dead("no")));
    append(journal, 3).await;
    let soon = Duration::from_millis(1);
    let options = PairOptions {
        retry: RetryOptions { max_attempts: 1, ..often().retry },
        parked: ParkedOptions {
            base: soon,
            max: soon,
            max_attempts: 2,
            ..ParkedOptions::default()
        },
        ..parking()
    };
    let builder = builder(journal).metrics(rounds.clone());
    let pair_of = builder.pair_with(&everything(), latch.publisher(), options);
    let node = pair_of.start().await.unwrap();
    let publishers = journal.publishers();
    let list = async || publishers.parked(&Which::all(), None, 10).await.unwrap();
    let over = async || list().await.first().is_some_and(|parked| parked.next_at.is_none());
    eventually("it is not tried any more", over).await;
    assert_eq!(list().await[0].attempts, 3);
    // Runs of three, of one, and two that were tried again. The metrics are told last.
    let failed = || rounds.counters.values().pairs[&pair("p")].failed;
    eventually("it is counted", async || failed() == 4).await;
    assert_eq!(node.statistics().failed, 4);
    node.close().await;
}

/// What only fails is poison where something after it does not.
pub async fn a_fact_that_fails_while_others_do_not_is_poison(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    latch.refuse(at(&[3, 4], || Failure::retry("it did not work")));
    append(journal, 4).await;
    let options =
        PairOptions { retry: RetryOptions { max_attempts: 3, ..often().retry }, ..parking() };
    let rounds = Rounds::new();
    let builder = builder(journal).metrics(rounds.clone());
    let pair_of = builder.pair_with(&everything(), latch.publisher(), options);
    let node = pair_of.start().await.unwrap();
    // Nothing is after them that could tell.
    let failed = async || {
        let counted = rounds.counters.values();
        counted.pairs.get(&pair("p")).is_some_and(|counted| counted.failed > 10)
    };
    eventually("many failures", failed).await;
    assert_eq!((latch.positions(), node.statistics().parked), (numbers([1, 2]), 0));
    append(journal, 6).await;
    stored(journal, "p", 10).await;
    assert_eq!(latch.positions(), [1, 2, 5, 6, 7, 8, 9, 10]);
    let publishers = journal.publishers();
    assert_eq!(places(&publishers.parked(&Which::all(), None, 10).await.unwrap()), [3, 4]);
    // The one that told is counted as well.
    let statistics = node.statistics();
    assert_eq!((statistics.published.events, statistics.parked), (8, 2));
    assert_eq!(rounds.counters.values().pairs[&pair("p")].published, 8);
    assert_eq!(publishers.discard_parked(&Which::pair(&pair("p")), None).await.unwrap(), 2);
    node.close().await;
}

/// An outage that ends in the moment between the tries of the lowest fact and of a later one is no poison:
/// nothing is parked, and what was overtaken follows at once.
pub async fn an_outage_that_ends_during_a_probe_parks_nothing(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    // Nobody asks for the fifth by itself but a probe.
    let back = AtomicBool::new(false);
    latch.refuse(move |fact| {
        back.fetch_or(fact.position.get() == 5, Ordering::Relaxed);
        (!back.load(Ordering::Relaxed)).then(|| Failure::retry("connection refused"))
    });
    append(journal, 10).await;
    let options =
        PairOptions { retry: RetryOptions { max_attempts: 2, ..often().retry }, ..parking() };
    let pair_of = builder(journal).pair_with(&everything(), latch.publisher(), options);
    let node = pair_of.start().await.unwrap();
    stored(journal, "p", 10).await;
    assert_eq!(latch.positions(), [5, 1, 2, 3, 4, 6, 7, 8, 9, 10]);
    let parked = journal.publishers().parked(&Which::all(), None, 10).await.unwrap();
    assert_eq!((parked, node.statistics().parked), (Vec::new(), 0));
    assert_eq!(node.statistics().published.events, 10);
    node.close().await;
}

/// Holds J6: by default a pair waits at a fact that fails; where, since when and why is stored, whoever
/// leads it, `doctor` says so, and it is over when the fact is published or somebody goes on without it.
pub async fn a_pair_that_waits_at_a_fact_says_where_and_since_when(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    latch.refuse(at(&[3, 5], || Failure::dead("no such account")));
    append(journal, 6).await;
    let first = node(journal, &[&latch]).await;
    let waits = async |position: u64| {
        let failed = async || {
            let cursor = cursor(journal, "p").await;
            cursor.errors > 5 && cursor.waits_at.is_some_and(|at| at.position.get() == position)
        };
        eventually("it waits", failed).await;
        cursor(journal, "p").await
    };
    let begun = waits(3).await;
    assert_eq!((begun.position.get(), begun.status), (2, CursorStatus::Active));
    first.close().await;
    let second = node(&harness.elsewhere().await, &[&latch]).await;
    let more = async || cursor(journal, "p").await.errors > begun.errors + 3;
    eventually("another node waits at it", more).await;
    assert_eq!(waits(3).await.waits_at, begun.waits_at, "since when is known");
    let publishers = journal.publishers();
    let checkup = publishers.checkup(&Which::all()).await.unwrap();
    let findings = checkup.findings(&Tolerance::default());
    let said = findings.iter().find(|finding| finding.code() == "waiting").unwrap().to_string();
    assert!(
        said.contains("waits at position 3 since ") && said.contains("no such account"),
        "{said}"
    );
    latch.refuse(at(&[5], || Failure::dead("no such account")));
    let later = waits(5).await;
    assert!(later.waits_at.unwrap().since > begun.waits_at.unwrap().since);
    // As the finding says.
    publishers.rewind(&Which::publisher("p"), To::Position(position(5))).await.unwrap();
    stored(journal, "p", 6).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 6]);
    assert_eq!(cursor(journal, "p").await.waits_at, None);
    second.close().await;
}

/// Holds J6: with every policy, and by default, an outage under load parks nothing, and everything is
/// published once and in exact order, whatever the errors say.
pub async fn an_outage_under_load_parks_nothing_and_disorders_nothing(
    harness: impl PublishHarness,
) {
    let journal = harness.journal();
    let policies = [
        ("wait", often()),
        ("fail", PairOptions { poison: Poison::Fail { after: super::HOUR }, ..often() }),
        ("park", parking()),
    ];
    // Looks before it waits, so that there are many outages and many tries of them.
    let soon = UnavailableOptions {
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(50),
    };
    let latches = policies.each_ref().map(|(name, _)| Latch::new(*name));
    let pairs = policies.into_iter().zip(&latches).fold(builder(journal), |builder, pair| {
        let ((_, options), latch) = pair;
        let options = PairOptions { unavailable: soon, ..options };
        builder.pair_with(&everything(), latch.publisher(), options)
    });
    let node = pairs.start().await.unwrap();
    let refused = || Failure::from(io::Error::from(io::ErrorKind::ConnectionRefused));
    let mut appended: usize = 0;
    for failure in [|| Failure::from("it did not work"), refused] {
        let failing = latches.iter().map(|latch| latch.calls()).collect::<Vec<_>>();
        latches.iter().for_each(|latch| latch.refuse(move |_| Some(failure())));
        // Long enough that facts would be suspected.
        let tried =
            || latches.iter().zip(&failing).all(|(latch, calls)| latch.calls() > calls + 25);
        let load = async || {
            append(journal, 3).await;
            appended += 3;
            tried()
        };
        eventually("all are tried again and again", load).await;
        latches.iter().for_each(Latch::accept);
        append(journal, 10).await;
        appended += 10;
        for latch in &latches {
            latch.wait_for(appended).await;
        }
    }
    let all = numbers(1..=appended as u64);
    for (latch, name) in latches.iter().zip(["wait", "fail", "park"]) {
        assert_eq!(latch.positions(), all, "{name}");
        stored(journal, name, appended as u64).await;
    }
    assert_eq!(node.statistics().parked, 0);
    node.close().await;
}

/// Holds J9: a pair that must stay in order stops at poison, and goes on when it is reset, not when it is
/// resumed.
pub async fn a_pair_in_order_stops_as_failed_and_goes_on_when_it_is_reset(
    harness: impl PublishHarness,
) {
    let (journal, latch, rounds) = (harness.journal(), Latch::new("p"), Rounds::new());
    latch.refuse(at(&[3], || Failure::dead("never")));
    append(journal, 5).await;
    let options = PairOptions { poison: Poison::Fail { after: super::HOUR }, ..often() };
    let builder = builder(journal).metrics(rounds.clone());
    let pair_of = builder.pair_with(&everything(), latch.publisher(), options);
    let node = pair_of.start().await.unwrap();
    let failed = async || cursor(journal, "p").await.status == CursorStatus::Failed;
    eventually("FAILED", failed).await;
    let stopped = cursor(journal, "p").await;
    assert_eq!((stopped.position.get(), stopped.last_error.as_deref()), (2, Some("never")));
    assert!(stopped.errors > 0);
    latch.accept();
    let publishers = journal.publishers();
    assert_eq!(publishers.resume(&Which::all()).await.unwrap(), 1);
    rounds.pass(&pair("p")).await;
    assert_eq!((latch.positions(), failed().await), (numbers([1, 2]), true));
    assert_eq!(publishers.reset(&Which::publisher("p")).await.unwrap(), 1);
    latch.wait_for(5).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5]);
    stored(journal, "p", 5).await;
    let cursor = cursor(journal, "p").await;
    assert_eq!((cursor.errors, cursor.last_error, cursor.status), (0, None, CursorStatus::Active));
    node.close().await;
}

/// What is parked stays so while its pair is paused, and is not tried.
pub async fn what_is_parked_waits_while_its_pair_is_paused(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    latch.refuse(at(&[2], || Failure::dead("no")));
    append(journal, 3).await;
    let rounds = Rounds::new();
    let builder = builder(journal).metrics(rounds.clone());
    let pair_of = builder.pair_with(&everything(), latch.publisher(), parking());
    let node = pair_of.start().await.unwrap();
    stored(journal, "p", 3).await;
    let publishers = journal.publishers();
    publishers.pause(&Which::all()).await.unwrap();
    rounds.pass(&pair("p")).await;
    latch.accept();
    publishers.retry_parked(&Which::all(), None).await.unwrap();
    // Due, and the node would have asked for what is due.
    for _ in 0..5 {
        rounds.pass(&pair("p")).await;
    }
    assert_eq!(latch.positions(), [1, 3]);
    publishers.resume(&Which::all()).await.unwrap();
    latch.wait_for(3).await;
    assert_eq!(latch.positions(), [1, 3, 2]);
    node.close().await;
}
