//! Publishers that fail keep no other from going on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::journal::publish::CursorStatus;
use sendoff_core::journal::{Fact, Topic};
use sendoff_core::{Delivery, EventId, Failure};
use sendoff_engine::journal::publish::{Mode, PairOptions, PublishOptions, Start, Which};
use sendoff_engine::sink::{HandlerSink, LogSink, StatisticsSink};

use super::{
    append, builder, cursor, everything, node, numbers, often, pair, position, quick, stored,
    watched,
};
use crate::journal::{Latch, PublishHarness};
use crate::wait::eventually;

/// Holds J3 and J5: a target that refuses everything, one that says it is unwell, and one that is fine. An
/// outage is nobody's fault, and ends by itself.
pub async fn a_publisher_that_fails_touches_no_other_and_goes_on_by_itself(
    harness: impl PublishHarness,
) {
    let journal = harness.journal();
    let (away, unwell, fine) = (Latch::new("away"), Latch::new("unwell"), Latch::new("fine"));
    let back = Arc::<AtomicBool>::default();
    away.refuse({
        let (back, taken) = (Arc::clone(&back), AtomicBool::new(false));
        move |fact| {
            // It comes back for the first fact, and not in the middle of finding out whose fault it is.
            let first = fact.position.get() == 1;
            if back.load(Ordering::Relaxed) && (first || taken.load(Ordering::Relaxed)) {
                taken.store(true, Ordering::Relaxed);
                return None;
            }
            Some(Failure::retry("connection refused"))
        }
    });
    unwell.set_healthy(false);
    append(journal, 150).await;
    let (node, rounds) = watched(journal, &[&away, &unwell, &fine]).await;
    fine.wait_for(150).await;
    stored(journal, "fine", 150).await;
    // Every fact has failed by itself more often than it may, and what is after it as well.
    let failed = async || rounds.counters.values().pairs[&pair("away")].failed > 15;
    eventually("many failures", failed).await;
    let failing = async || cursor(journal, "away").await.errors > 0;
    eventually("its errors are stored", failing).await;
    let down = cursor(journal, "away").await;
    assert_eq!((down.status, down.position.get()), (CursorStatus::Active, 0));
    assert_eq!(down.last_error.as_deref(), Some("connection refused"));
    assert_eq!((unwell.calls(), cursor(journal, "unwell").await.position.get()), (0, 0));
    append(journal, 50).await;
    fine.wait_for(200).await;
    back.store(true, Ordering::Relaxed);
    unwell.set_healthy(true);
    for (name, latch) in [("away", away), ("unwell", unwell), ("fine", fine)] {
        stored(journal, name, 200).await;
        assert_eq!(latch.positions(), numbers(1..=200), "{name}");
        let up = cursor(journal, name).await;
        assert_eq!((up.errors, up.last_error), (0, None), "{name}");
    }
    assert_eq!(node.statistics().parked, 0);
    node.close().await;
}

/// Holds J4.
pub async fn topics_select_by_types_and_by_required_any_of_and_exact_tags(
    harness: impl PublishHarness,
) {
    let journal = harness.journal();
    let fact = |event_type: &str, tags: &[(&str, &str)]| {
        let builder = Fact::builder((event_type, "{}"));
        tags.iter().fold(builder, |builder, (key, value)| builder.tag(*key, value)).build().unwrap()
    };
    let topics = [
        Topic::builder("all"),
        Topic::builder("types").types(["opened", "closed"]),
        Topic::builder("required").required_tags(["wallet", "owner"]),
        Topic::builder("any").any_of_tags(["owner", "transfer"]),
        Topic::builder("exact").exact_tags(["wallet=1".parse().unwrap()]),
        Topic::builder("both").types(["moved"]).required_tags(["wallet"]),
    ];
    let latch = Latch::new;
    let latches: Vec<_> = topics.into_iter().map(|t| (t.build().unwrap(), latch("p"))).collect();
    let node = latches.iter().fold(builder(journal), |builder, (topic, latch)| {
        builder.pair_with(topic, latch.publisher(), often())
    });
    let node = node.start().await.unwrap();
    let facts = [
        fact("opened", &[("wallet", "1"), ("owner", "ann")]),
        fact("moved", &[("wallet", "1"), ("transfer", "7")]),
        fact("moved", &[("wallet", "11")]),
        fact("moved", &[("transfer", "8")]),
        fact("closed", &[("owner", "bob")]),
        fact("noted", &[]),
    ];
    for fact in facts {
        journal.append([fact]).await.unwrap();
    }
    let expected: [&[u64]; 6] =
        [&[1, 2, 3, 4, 5, 6], &[1, 5], &[1], &[1, 2, 4, 5], &[1, 2], &[2, 3]];
    for ((topic, latch), expected) in latches.iter().zip(expected) {
        latch.wait_for(expected.len()).await;
        assert_eq!(latch.positions(), expected, "{}", topic.name());
    }
    node.close().await;
    // A pair passes what is not for it as well.
    let cursors = journal.publishers().cursors(&Which::all()).await.unwrap();
    assert!(cursors.iter().all(|c| c.position.get() == 6 && c.leader.is_none()), "{cursors:?}");
    for ((topic, latch), expected) in latches.iter().zip(expected) {
        assert_eq!(latch.positions(), expected, "{}", topic.name());
    }
}

/// Holds J5: what is included logs and counts, any handler of an outbox is a publisher, and a node counts
/// for all of them.
pub async fn included_publishers_log_and_count(harness: impl PublishHarness) {
    let journal = harness.journal();
    let counted = StatisticsSink::default();
    let handled = Arc::<Mutex<Vec<EventId>>>::default();
    let handler = {
        let handled = Arc::clone(&handled);
        move |delivery: Delivery| {
            handled.lock().unwrap_or_else(PoisonError::into_inner).push(delivery.id());
            async { Ok(()) }
        }
    };
    append(journal, 120).await;
    let node = builder(journal)
        .pair_with(&everything(), Arc::new(counted.clone()), often())
        .pair_with(&everything(), Arc::new(LogSink::default()), often())
        .pair_with(&everything(), Arc::new(HandlerSink::new("handler", handler)), often())
        .start()
        .await
        .unwrap();
    for name in ["statistics", "log", "handler"] {
        stored(journal, name, 120).await;
    }
    let seen = counted.seen();
    assert_eq!((seen.events, seen.last.get(), seen.by_type["moved"]), (120, 120, 120));
    assert_eq!(handled.lock().unwrap_or_else(PoisonError::into_inner).len(), 120);
    let all = node.statistics();
    assert_eq!((all.published.events, all.published.by_type["moved"]), (360, 360));
    assert_eq!(all.pairs[&pair("log")].published, 120);
    node.close().await;
}

/// Holds J5 and J7: a hundred at a time, or as many as is said, or one.
pub async fn batches_have_a_hundred_facts_unless_it_is_said(harness: impl PublishHarness) {
    let journal = harness.journal();
    append(journal, 250).await;
    let (hundred, seven, single) = (Latch::new("hundred"), Latch::new("seven"), Latch::new("one"));
    let node = builder(journal)
        .pair(&everything(), hundred.publisher())
        .pair_with(&everything(), seven.publisher(), PairOptions { batch: 7, ..often() })
        .pair_with(&everything(), single.publisher(), PairOptions { mode: Mode::Single, ..often() })
        .start()
        .await
        .unwrap();
    for (latch, batches) in [(&hundred, 3), (&seven, 36), (&single, 250)] {
        latch.wait_for(250).await;
        assert_eq!((latch.positions(), latch.batches()), (numbers(1..=250), batches));
    }
    node.close().await;
}

/// A pair begins with the first fact, after a position, or with what comes from now on; and only
/// once.
pub async fn a_pair_begins_where_it_is_told_to(harness: impl PublishHarness) {
    let journal = harness.journal();
    append(journal, 20).await;
    let (first, after, now) = (Latch::new("first"), Latch::new("after"), Latch::new("now"));
    let start = async |start: Start| {
        builder(journal)
            .pair_with(&everything(), first.publisher(), often())
            .pair_with(
                &everything(),
                after.publisher(),
                PairOptions { start: Start::After(position(15)), ..often() },
            )
            .pair_with(&everything(), now.publisher(), PairOptions { start, ..often() })
            .start()
            .await
            .unwrap()
    };
    let node = start(Start::Now).await;
    append(journal, 1).await;
    for (latch, from) in [(&first, 1), (&after, 16), (&now, 21)] {
        latch.wait_for(22 - from).await;
        assert_eq!(latch.positions(), numbers(from as u64..=21));
    }
    node.close().await;
    append(journal, 2).await;
    // It has a cursor by now.
    let node = start(Start::Beginning).await;
    now.wait_for(3).await;
    assert_eq!(now.positions(), [21, 22, 23]);
    node.close().await;
}

/// Holds J3: one that lags reads for itself, and rejoins.
pub async fn a_pair_before_the_window_reads_for_itself_and_rejoins(harness: impl PublishHarness) {
    let journal = harness.journal();
    let (near, far) = (Latch::new("near"), Latch::new("far"));
    append(journal, 200).await;
    far.set_healthy(false);
    let options = PublishOptions { window_rows: 50, ..quick() };
    let small = PairOptions { batch: 7, ..often() };
    let node = builder(journal)
        .options(options)
        .pair_with(&everything(), near.publisher(), small.clone())
        .pair_with(&everything(), far.publisher(), small)
        .start()
        .await
        .unwrap();
    near.wait_for(200).await;
    append(journal, 100).await;
    near.wait_for(300).await;
    assert_eq!(far.positions(), [0; 0]);
    far.set_healthy(true);
    far.wait_for(300).await;
    append(journal, 10).await;
    for latch in [&near, &far] {
        latch.wait_for(310).await;
        assert_eq!(latch.positions(), numbers(1..=310));
    }
    node.close().await;
}

/// Holds J12.
pub async fn a_thousand_pairs_work_on_one_node(harness: impl PublishHarness) {
    let journal = harness.journal();
    let latches: Vec<_> = (0..1_000).map(|number| Latch::new(format!("p{number}"))).collect();
    append(journal, 10).await;
    let slow = PairOptions { interval: Duration::from_secs(1), ..often() };
    let node = latches.iter().fold(builder(journal), |builder, latch| {
        builder.pair_with(&everything(), latch.publisher(), slow.clone())
    });
    let node = node.start().await.unwrap();
    for latch in &latches {
        latch.wait_for(10).await;
    }
    append(journal, 10).await;
    for latch in &latches {
        latch.wait_for(20).await;
        assert_eq!(latch.positions(), numbers(1..=20));
    }
    assert_eq!(node.statistics().leading, 1_000);
    node.close().await;
    let cursors = journal.publishers().cursors(&Which::all()).await.unwrap();
    assert_eq!(cursors.len(), 1_000);
    assert!(cursors.iter().all(|c| c.position.get() == 20 && c.leader.is_none()));
}

/// Holds J8: who was closed, and who was not, is followed by one that goes on where the cursor is.
pub async fn a_restart_goes_on_at_the_stored_position(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    for round in 1..=3_u64 {
        append(journal, 10).await;
        let node = node(journal, &[&latch]).await;
        stored(journal, "p", round * 10).await;
        node.close().await;
    }
    assert_eq!(latch.positions(), numbers(1..=30));
}
