//! Batches in a consumer's hands: answers, commits, rollbacks.

use std::time::Duration;

use sendoff_core::{EventId, Failure, Status};
use sendoff_engine::RetryOptions;
use sendoff_engine::relay::{BatchError, BatchReport, ClaimMode, Consumer, RelayOptions};

use super::{Content, Every, Relayed, consumer, content, contents, options, statuses};
use crate::conformance::Probe;
use crate::wait::eventually;

fn ids(batch: &sendoff_engine::relay::Batch) -> Vec<EventId> {
    batch.records().map(|record| record.id()).collect()
}

/// Each answer is stored, and what has none is put back exactly. Holds L2 and L4.
pub async fn a_batch_acknowledges_fails_and_ends<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let written = probe.commit_due(4).await;
    let untouched = content(probe, written[3]).await;
    let mut batch = consumer(probe, options(mode)).fetch().await.unwrap().expect("four are due");
    assert_eq!(ids(&batch), written, "oldest due first");
    assert!(batch.records().all(|record| record.attempt == 1));
    assert!(written.iter().all(|id| batch.is_held(*id)));
    batch.ack(written[0]).unwrap();
    batch.fail(written[1], "no route").unwrap();
    batch.dead(written[2], "no such order").unwrap();
    let report = batch.commit().await.unwrap();
    let expected =
        BatchReport { done: 1, retried: 1, dead: 1, untouched: 1, ..BatchReport::default() };
    assert_eq!(report, expected);
    use Status::{Dead, Done, New, Retry};
    assert_eq!(statuses(probe, &written).await, [Done, Retry, Dead, New]);
    let (retried, dead) = (probe.row(written[1]).await, probe.row(written[2]).await);
    assert_eq!((retried.attempts, retried.last_error.as_deref()), (1, Some("no route")));
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (1, Some("no such order")));
    assert_eq!(content(probe, written[3]).await, untouched);
}

/// Nothing due is `None`, never an empty batch. Holds L2.
pub async fn no_work_is_an_answer_of_its_own<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let consumer = consumer(probe, options(mode));
    assert!(consumer.fetch().await.unwrap().is_none());
    probe.commit_held("writer", 10).await;
    assert!(consumer.fetch().await.unwrap().is_none());
    probe.commit_due(1).await;
    let batch = consumer.fetch().await.unwrap().expect("one is due");
    assert_eq!(batch.records().len(), 1);
    assert!(consumer.fetch().await.unwrap().is_none(), "it is taken");
    batch.rollback().await.unwrap();
}

/// One answer for each event of the batch, and for no other. Holds L2.
pub async fn a_strange_or_second_answer_is_refused<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let id = probe.commit_due(1).await[0];
    let mut batch = consumer(probe, options(mode)).fetch().await.unwrap().expect("one is due");
    let stranger = EventId::generate();
    assert_eq!(batch.ack(stranger), Err(BatchError::NotInBatch { id: stranger }));
    assert!(!batch.is_held(stranger));
    batch.fail(id, "no").unwrap();
    assert_eq!(batch.ack(id), Err(BatchError::AnsweredTwice { id }));
    assert_eq!(batch.dead(id, "no"), Err(BatchError::AnsweredTwice { id }));
    let report = batch.commit().await.unwrap();
    assert_eq!(report, BatchReport { retried: 1, ..BatchReport::default() }, "the first counts");
}

/// Two events with different stories, due at different times, one of which failed before.
async fn two_stories<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) -> (Vec<EventId>, Vec<Content>) {
    let written = probe.commit_due(1).await;
    let retry = Every(Duration::ZERO);
    let consumer = Consumer::with_retry(probe.store().clone(), options(mode), retry).unwrap();
    let mut batch = consumer.fetch().await.unwrap().expect("one is due");
    batch.fail(written[0], "first").unwrap();
    batch.commit().await.unwrap();
    probe.pass(1).await;
    let written = [written, probe.commit_due(1).await].concat();
    probe.pass(1).await;
    let contents = contents(probe, &written).await;
    (written, contents)
}

/// Whatever was answered, a rollback leaves everything as it was, and free. Holds L4.
pub async fn a_rollback_restores_attempts_and_due_times_exactly<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let (written, before) = two_stories(probe, mode).await;
    let consumer = consumer(probe, options(mode));
    for _ in 0..3 {
        let mut batch = consumer.fetch().await.unwrap().expect("two are due");
        assert_eq!(ids(&batch), written);
        let attempts: Vec<_> = batch.records().map(|record| record.attempt).collect();
        assert_eq!(attempts, [2, 1], "a rolled-back run was none");
        batch.ack(written[0]).unwrap();
        batch.dead(written[1], "no").unwrap();
        batch.rollback().await.unwrap();
        assert_eq!(contents(probe, &written).await, before);
    }
}

/// A batch that nobody ends is rolled back. Holds L4.
pub async fn a_dropped_batch_restores_attempts_and_due_times_exactly<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let (written, before) = two_stories(probe, mode).await;
    let consumer = consumer(probe, options(mode));
    for _ in 0..3 {
        let mut taken = None;
        eventually("both events", async || {
            taken = consumer.fetch().await.unwrap().filter(|batch| batch.records().len() == 2);
            taken.is_some()
        })
        .await;
        let mut batch = taken.expect("both");
        batch.ack(written[0]).unwrap();
        drop(batch);
    }
    eventually("the rollback", async || contents(probe, &written).await == before).await;
}

/// A retry is due its delay after the settlement, by the database's clock, and not before. Holds L4.
pub async fn a_retry_is_due_exactly_at_its_deadline<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let id = probe.commit_due(1).await[0];
    let delay = probe.ticks(4);
    let consumer =
        Consumer::with_retry(probe.store().clone(), options(mode), Every(delay)).unwrap();
    let mut batch = consumer.fetch().await.unwrap().expect("one is due");
    probe.pass(1).await;
    batch.fail(id, "no").unwrap();
    let (report, at) = probe.timed(batch.commit()).await;
    assert_eq!(report.unwrap().retried, 1);
    at.after(delay).assert_has(probe.row(id).await.due_at);
    assert!(consumer.fetch().await.unwrap().is_none());
    probe.pass(4).await;
    let batch = consumer.fetch().await.unwrap().expect("its time has come");
    assert_eq!(batch.records().next().map(|record| record.attempt), Some(2));
    batch.rollback().await.unwrap();
}

/// An event is dead when its attempts are used up, or at once when the failure says so. Holds L2.
pub async fn the_last_attempt_is_dead<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let id = probe.commit_due(1).await[0];
    let options = RelayOptions {
        retry: RetryOptions { max_attempts: 2, ..RetryOptions::default() },
        ..options(mode)
    };
    let retry = Every(Duration::ZERO);
    let consumer = Consumer::with_retry(probe.store().clone(), options, retry).unwrap();
    for (status, attempts) in [(Status::Retry, 1), (Status::Dead, 2)] {
        let mut batch = consumer.fetch().await.unwrap().expect("it is due");
        batch.fail(id, Failure::retry("no")).unwrap();
        batch.commit().await.unwrap();
        let row = probe.row(id).await;
        assert_eq!((row.status, row.attempts), (status, attempts));
        probe.pass(1).await;
    }
    assert!(consumer.fetch().await.unwrap().is_none());
}

/// A batch of poison fails and steps aside, by its back-off, for those after it. Holds L2 and L4.
pub async fn fifty_poison_events_at_the_head_do_not_stop_the_others<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let poison = probe.commit_due(50).await;
    let good = probe.commit_due(20).await;
    let options = RelayOptions {
        retry: RetryOptions {
            base: Duration::from_secs(3_600),
            max: Duration::from_secs(3_600),
            ..RetryOptions::default()
        },
        ..options(mode)
    };
    let consumer = consumer(probe, options);
    while let Some(mut batch) = consumer.fetch().await.unwrap() {
        for id in ids(&batch) {
            if poison.contains(&id) {
                batch.fail(id, "poison").unwrap();
            } else {
                batch.ack(id).unwrap();
            }
        }
        batch.commit().await.unwrap();
    }
    assert!(statuses(probe, &good).await.iter().all(|status| *status == Status::Done));
    for id in &poison {
        let row = probe.row(*id).await;
        assert_eq!((row.status, row.attempts), (Status::Retry, 1), "one attempt, not all of them");
    }
}

/// Old events are found when young ones do not fill a batch, and under endless load. Holds L9.
pub async fn a_window_hides_no_event_for_good<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let old = probe.commit_due(1).await[0];
    probe.pass(6).await;
    let window = Some(probe.ticks(4));
    let consumer = consumer(probe, RelayOptions { window, batch: 2, ..options(mode) });
    let batch = consumer.fetch().await.unwrap().expect("though it is older");
    assert_eq!(ids(&batch), [old]);
    batch.rollback().await.unwrap();
    // Always enough young ones for a full batch.
    let mut looks = 0;
    loop {
        looks += 1;
        assert!(looks <= 8, "the old one is hidden");
        probe.commit_due(2).await;
        let mut batch = consumer.fetch().await.unwrap().expect("two are due");
        let fetched = ids(&batch);
        for id in &fetched {
            batch.ack(*id).unwrap();
        }
        batch.commit().await.unwrap();
        if fetched.contains(&old) {
            return;
        }
    }
}

/// An event that went down with its holders is not given company. Holds L2.
pub async fn an_event_lost_twice_comes_alone<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let suspect = probe.commit_held("one", 1).await.id;
    probe.pass(1).await;
    assert_eq!(probe.claim_all("two").await.len(), 1);
    probe.pass(crate::conformance::probe::HOLD).await;
    let neighbours = probe.commit_due(3).await;
    // Suspects have their turn after an interval, which the first statement alone must not take.
    let poll_interval = Duration::from_millis(500);
    let consumer = consumer(probe, RelayOptions { poll_interval, ..options(mode) });
    let company = consumer.fetch().await.unwrap().expect("three are due");
    assert_eq!(ids(&company), neighbours);
    assert!(consumer.fetch().await.unwrap().is_none(), "not beside others");
    company.rollback().await.unwrap();
    let mut seen = None;
    for _ in 0..16 {
        let batch = consumer.fetch().await.unwrap().expect("four are due");
        if ids(&batch).contains(&suspect) {
            assert_eq!(ids(&batch), [suspect]);
            seen = Some(batch);
            break;
        }
        batch.rollback().await.unwrap();
    }
    seen.expect("it has its turn").rollback().await.unwrap();
}

/// A hold is certain for as long as it lasts, and no longer. Holds S5.
pub async fn an_event_whose_hold_ran_out_is_not_delivered<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let id = probe.commit_due(1).await[0];
    let hold = Duration::from_millis(200);
    let consumer = consumer(probe, RelayOptions { hold, ..options(mode) });
    let batch = consumer.fetch().await.unwrap().expect("one is due");
    assert!(batch.is_held(id));
    eventually("the end of the hold", async || !batch.is_held(id)).await;
    assert_eq!(batch.extend().await.unwrap(), 0, "nobody took it meanwhile");
    assert!(batch.is_held(id));
    batch.rollback().await.unwrap();
}
