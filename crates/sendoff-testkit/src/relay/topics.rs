//! The topic worker.

use std::time::Duration;

use sendoff_core::{Delivery, Event, Failure, Status, Unroutable};
use sendoff_engine::HandlerResult;
use sendoff_engine::relay::{BatchReport, ClaimMode, RelayOptions, TopicStatus, TopicWorker};
use sendoff_engine::store::{Claim, Claimed, Outcome, SettleStore, Settlement};

use super::{Relayed, options, statuses};
use crate::conformance::Probe;
use crate::conformance::probe::due;

async fn handled(_: Delivery) -> HandlerResult {
    Ok(())
}

async fn refused(_: Delivery) -> HandlerResult {
    Err(Failure::retry("refused"))
}

pub(super) async fn write<H: Relayed>(
    probe: &Probe<H>,
    topics: &[&str],
) -> Vec<sendoff_core::EventId> {
    let event = |topic: &&str| due(Event::json_text(*topic, "{}").expect("an event"));
    let rows: Vec<_> = topics.iter().map(event).collect();
    probe.commit(&rows).await;
    rows.iter().map(|row| row.event.id()).collect()
}

/// Pending to processed; a failure and a missing handler go back with one more attempt, a minute
/// later; or a missing handler is the end, by policy. Holds T1.
pub async fn a_topic_worker_handles_fails_and_finds_no_handler<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    for unroutable in [Unroutable::Retry, Unroutable::Dead] {
        let ids = write(probe, &["good", "bad", "unheard"]).await;
        let worker = TopicWorker::builder(probe.store().clone())
            .options(options(mode))
            .unroutable(unroutable)
            .on("good", handled)
            .on("bad", refused)
            .build()
            .expect("the configuration is good");
        let mut consumed = Vec::new();
        for _ in 0..3 {
            let (report, at) = probe.timed(worker.consume_one()).await;
            consumed.push((report.unwrap().expect("three are due"), at));
        }
        assert!(worker.consume_one().await.unwrap().is_none());
        let last = if unroutable == Unroutable::Dead { Status::Dead } else { Status::Retry };
        assert_eq!(statuses(probe, &ids).await, [Status::Done, Status::Retry, last]);
        for (id, (_, at)) in ids.iter().zip(&consumed).skip(1) {
            let row = probe.row(*id).await;
            assert_eq!(row.attempts, 1);
            if row.status == Status::Retry {
                at.after(Duration::from_secs(60)).assert_has(row.due_at);
            }
        }
        let unheard = probe.row(ids[2]).await.last_error.expect("it says why");
        assert!(unheard.contains("no handler for") && unheard.contains("unheard"), "{unheard}");
    }
    let twice = TopicWorker::builder(probe.store().clone()).on("a", handled).on("a", handled);
    assert!(twice.build().is_err(), "two handlers for one topic");
}

/// Without any policy set, nothing is dead by itself: a failure and a missing handler are tried again, a
/// minute later for each attempt, up to an hour, however many there were. Holds T1.
pub async fn a_topic_worker_ends_nothing_by_itself<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let builder = TopicWorker::builder(probe.store().clone());
    let builder = match mode {
        ClaimMode::Held => builder,
        ClaimMode::Locked => builder.options(RelayOptions { mode, ..RelayOptions::for_topics() }),
    };
    let worker = builder.on("bad", refused).build().expect("the defaults are good");
    for (attempts, minutes) in [(0, 1), (9, 10), (58, 59), (75, 60)] {
        let ids = write(probe, &["bad", "unheard"]).await;
        let tried = |row: Claimed| {
            let (delay, error) = (Duration::ZERO, "no".to_owned());
            Settlement { held: row.held(), outcome: Outcome::Retry { delay, attempts, error } }
        };
        let tried: Vec<_> = probe.claim_all("node").await.into_iter().map(tried).collect();
        assert_eq!(probe.store().settle(&tried).await.unwrap().applied.len(), 2);
        probe.pass(1).await;
        for _ in &ids {
            let (report, at) = probe.timed(worker.consume_one()).await;
            assert_eq!(report.unwrap().map(|report| report.retried), Some(1));
            let after = at.after(Duration::from_secs(60 * minutes));
            let mut tried = Vec::new();
            for id in &ids {
                tried.push(probe.row(*id).await);
            }
            tried.retain(|row| row.attempts == attempts + 1);
            let last = tried.iter().max_by_key(|row| row.due_at).expect("one was tried");
            assert_eq!(last.status, Status::Retry);
            after.assert_has(last.due_at);
        }
    }
}

/// One event, whatever else is due. Holds T2.
pub async fn consume_one_handles_exactly_one_event<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let ids = write(probe, &["good", "good", "good"]).await;
    let builder = TopicWorker::builder(probe.store().clone()).options(options(mode));
    let worker = builder.on("good", handled).build().expect("the configuration is good");
    let one = worker.consume_one().await.unwrap();
    assert_eq!(one, Some(BatchReport { done: 1, ..BatchReport::default() }));
    use Status::{Done, New};
    assert_eq!(statuses(probe, &ids).await, [Done, New, New]);
}

/// Pending, processing, processed and failed, by topic. Holds T3.
pub async fn topics_are_counted_by_the_words_of_the_worker<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    write(probe, &["good", "bad", "good", "unheard"]).await;
    let builder = TopicWorker::builder(probe.store().clone()).options(options(mode));
    let builder = builder.unroutable(Unroutable::Dead);
    let worker = builder.on("good", handled).on("bad", refused).build().expect("a good one");
    for _ in 0..4 {
        worker.consume_one().await.unwrap().expect("one is due");
    }
    write(probe, &["good", "good"]).await;
    let one = Claim { limit: 1, ..probe.claim_by("node") };
    assert_eq!(probe.claim(&one).await.len(), 1);
    let status = |topic: &str, [pending, processing, processed, failed]: [u64; 4]| TopicStatus {
        topic: topic.to_owned(),
        pending,
        processing,
        processed,
        failed,
    };
    let expected = [
        status("bad", [1, 0, 0, 0]),
        status("good", [1, 1, 2, 0]),
        status("unheard", [0, 0, 0, 1]),
    ];
    assert_eq!(worker.counts().await.unwrap(), expected);
}
