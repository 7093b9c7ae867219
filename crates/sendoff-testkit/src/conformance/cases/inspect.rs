//! What looking at a table tells: counts, lag, topics, the first due row.

use std::time::Duration;

use sendoff_core::{Event, EventId, WaitsFor};
use sendoff_engine::store::{
    Claim, Counts, Cutoff, Held, InspectStore, Lateness, Outcome, Purge, RetainStore, Settlement,
    Suspects, TopicCounts,
};

use crate::conformance::probe::{HOLD, due, held, hold_of};
use crate::conformance::{Probe, StoreHarness};

/// Counts follow the rows through every status. Holds S1.
pub async fn counts_tell_the_rows_of_each_status<H: StoreHarness>(probe: &Probe<H>) {
    let counts = || async { probe.store().counts().await.expect("counts") };
    assert_eq!(counts().await, Counts::default());
    probe.commit_due(5).await;
    assert_eq!(counts().await, Counts { new: 5, ..Counts::default() });
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    let error = || "no".to_owned();
    let retry = Outcome::Retry { delay: probe.ticks(1), attempts: 1, error: error() };
    assert!(probe.settle(held[0], Outcome::Done).await);
    assert!(probe.settle(held[1], retry).await);
    assert!(probe.settle(held[2], Outcome::dead(1, error())).await);
    assert!(probe.settle(held[3], Outcome::Released).await);
    let done = u64::from(probe.store().keeps().is_some());
    assert_eq!(counts().await, Counts { new: 2, done, retry: 1, dead: 1 });
}

/// A look at what comes next takes nothing: the first in the order of claims, also those that are held or
/// delayed, and never what is over.
pub async fn a_peek_shows_what_comes_next_and_takes_nothing<H: StoreHarness>(probe: &Probe<H>) {
    let peek = async |limit| probe.store().peek(limit).await.expect("a look");
    assert!(peek(10).await.is_empty());
    let over = probe.take_one("node").await;
    assert!(probe.settle(over, Outcome::Done).await);
    let held = probe.commit_held("writer", HOLD).await;
    let due = probe.commit_due(2).await;
    let seen = peek(10).await;
    let ids: Vec<EventId> = seen.iter().map(|row| row.event.id()).collect();
    assert_eq!(ids, [due[0], due[1], held.id]);
    assert_eq!(seen[2].locked_by.as_deref(), Some("writer"));
    assert_eq!(peek(1).await.len(), 1);
    assert_eq!(probe.claim_all("node").await.len(), 2, "they are there for whoever claims");
}

/// What is overdue is the oldest row that is due and that nobody has; held and delayed ones are not. Holds
/// P5.
pub async fn the_oldest_lag_counts_from_the_due_time<H: StoreHarness>(probe: &Probe<H>) {
    let lag = || async { probe.store().lateness().await.expect("the lag").overdue };
    assert_eq!(probe.store().lateness().await.expect("the lag"), Lateness::default());
    probe.commit_held("writer", HOLD * 2).await;
    assert_eq!(lag().await, Duration::ZERO, "held is not due");

    let (_, written) = probe.timed(probe.commit_due(1)).await;
    probe.pass(3).await;
    probe.commit_due(1).await;
    let (lag_now, asked) = probe.timed(lag()).await;
    assert!(lag_now >= probe.ticks(3), "{lag_now:?}");
    // What it says and when it was asked lead back to the write.
    written.assert_contains_start(asked, lag_now);

    probe.claim_all("node").await;
    assert_eq!(lag().await, Duration::ZERO, "all are held");
}

/// The oldest undelivered event is late since it was first due, whatever became of it: held, waiting for its
/// target or a handler, retrying, a suspect, delayed and then due. One that is delayed still is not late. Holds P5.
pub async fn the_oldest_undelivered_event_is_late_whatever_it_waits_for<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let oldest = || async {
        let (late, asked) = probe.timed(probe.store().lateness()).await;
        let late = late.expect("the lag");
        assert!(!late.at_least, "so few rows are all looked at");
        (late.oldest, asked)
    };
    let delayed = |ticks| {
        let event = Event::builder("late").delay(probe.ticks(ticks)).json_text("{}").build();
        due(event.expect("an event"))
    };
    probe.commit(&[delayed(HOLD * 9)]).await;
    assert_eq!(oldest().await.0, Duration::ZERO, "it is not due yet");
    let (_, written) = probe.timed(probe.commit_due(1)).await;
    probe.pass(1).await;
    let held = hold_of(&probe.claim_one("node").await);
    let (late, asked) = oldest().await;
    written.assert_contains_start(asked, late);

    let (error, attempts, delay) = ("no".to_owned(), 1, probe.ticks(2));
    let waits_for = WaitsFor::Target;
    let wait = Outcome::Wait { delay, waits_for, attempts, error: error.clone() };
    assert!(probe.settle(held, wait).await);
    let (late, asked) = oldest().await;
    written.assert_contains_start(asked, late);
    probe.pass(3).await;
    let held = hold_of(&probe.claim_one("node").await);
    assert!(probe.settle(held, Outcome::Retry { delay, attempts, error }).await);
    let (late, asked) = oldest().await;
    written.assert_contains_start(asked, late);
    probe.pass(3).await;
    let held = hold_of(&probe.claim_one("node").await);
    let (error, waits_for) = ("nobody has a handler".to_owned(), WaitsFor::Handler);
    assert!(probe.settle(held, Outcome::Wait { delay, waits_for, attempts, error }).await);
    let (late, asked) = oldest().await;
    written.assert_contains_start(asked, late);
    for owner in ["one", "two"] {
        probe.pass(3).await;
        let soon_lost = Claim::new(owner, 100, probe.ticks(2));
        assert_eq!(probe.claim(&soon_lost).await.len(), 1);
    }
    probe.pass(3).await;
    assert!(probe.claim_all("node").await.is_empty(), "a suspect is for whoever has nothing else");
    let (late, asked) = oldest().await;
    written.assert_contains_start(asked, late);
    let suspects = Claim { suspects: Suspects::Only, ..probe.claim_by("node") };
    let held = hold_of(&probe.claim(&suspects).await[0]);
    assert!(probe.settle(held, Outcome::Done).await);
    assert_eq!(oldest().await.0, Duration::ZERO, "delivered");

    let (_, written) = probe.timed(probe.commit(&[delayed(2)])).await;
    probe.pass(3).await;
    probe.claim_all("node").await;
    let (late, asked) = oldest().await;
    written.after(probe.ticks(2)).assert_contains_start(asked, late);
}

/// Where there are more rows than are looked at, what is said of the oldest is said to be the least. Holds
/// P5.
pub async fn of_more_rows_than_are_looked_at_the_least_is_said<H: StoreHarness>(probe: &Probe<H>) {
    let late = || async { probe.store().lateness().await.expect("the lag") };
    let (_, written) = probe.timed(probe.commit_due(1)).await;
    let rows = usize::try_from(Lateness::ROWS).expect("few");
    probe.commit_due(rows - 2).await;
    assert!(!late().await.at_least, "one less than are looked at");
    probe.commit_due(1).await;
    assert!(late().await.at_least, "there may be another");
    probe.commit_due(1).await;
    let (late, asked) = probe.timed(late()).await;
    assert!(late.at_least);
    written.assert_contains_start(asked, late.oldest);
}

/// Nothing pending is due before the first due time, and it is never later than now.
pub async fn the_first_due_time_hides_nothing<H: StoreHarness>(probe: &Probe<H>) {
    let first_due = || async { probe.store().first_due().await.expect("first due") };
    let empty = first_due().await;
    probe.commit_held("writer", HOLD * 2).await;
    assert!(first_due().await >= empty, "what is held is due later, and now is earlier");
    let id = probe.commit_due(1).await[0];
    let row = probe.find(id).await.expect("the row");
    assert!(row.due_at >= empty);
    probe.pass(1).await;
    assert_eq!(first_due().await, row.due_at);
    probe.claim_all("node").await;
    assert!(first_due().await > row.due_at, "all are held");
}

/// An id that was never written is not found.
pub async fn an_unknown_id_is_not_found<H: StoreHarness>(probe: &Probe<H>) {
    probe.commit_due(1).await;
    assert!(probe.find(EventId::generate()).await.is_none());
}

/// Every type has its counts, in the order of the types; what is held is told apart. Holds T3.
pub async fn topics_count_events_by_type_and_status<H: StoreHarness>(probe: &Probe<H>) {
    assert!(probe.topics().await.is_empty());
    let rows: Vec<_> = ["b.kind", "a.kind", "b.kind", "b.kind", "b.kind", "b.kind"]
        .into_iter()
        .map(|name| due(Event::json_text(name, "{}").expect("a plain event")))
        .collect();
    probe.commit(&rows).await;
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    let error = || "no".to_owned();
    let retry = Outcome::Retry { delay: probe.ticks(1), attempts: 1, error: error() };
    assert!(probe.settle(held[0], Outcome::Done).await);
    assert!(probe.settle(held[2], Outcome::dead(1, error())).await);
    assert!(probe.settle(held[3], retry).await);
    assert!(probe.settle(held[4], Outcome::Released).await);
    let topic = |name: &str, held, counts| TopicCounts { event_type: name.into(), counts, held };
    let expected = [
        topic("a.kind", 1, Counts { new: 1, ..Counts::default() }),
        topic("b.kind", 1, Counts { new: 2, done: 1, retry: 1, dead: 1 }),
    ];
    assert_eq!(probe.topics().await, expected);
    // Stale settlements count nothing.
    assert!(!probe.settle(held[0], Outcome::Done).await);
    assert_eq!(probe.topics().await, expected);
}

/// Forgetting rows does not lower the counters, and they go up with every batch. Holds T3.
pub async fn counters_of_what_ended_outlive_its_rows<H: StoreHarness>(probe: &Probe<H>) {
    for round in 1..=3 {
        probe.commit_due(10).await;
        let settle = |row: &_| Settlement { held: hold_of(row), outcome: Outcome::Done };
        let batch: Vec<_> = probe.claim_all("node").await.iter().map(settle).collect();
        assert_eq!(probe.settle_all(&batch).await.len(), 10);
        probe.pass(1).await;
        let purge = Purge { cutoff: Cutoff::Age(Duration::ZERO), limit: 100, dead: true };
        probe.store().purge(&purge).await.expect("purge");
        let topics = probe.topics().await;
        assert_eq!(topics.len(), 1);
        assert_eq!(topics[0].counts, Counts { done: round * 10, ..Counts::default() });
    }
}

/// Batches of several types, settled at once in opposite orders, all come through. Holds T3.
pub async fn settlements_of_many_types_never_deadlock<H: StoreHarness>(probe: &Probe<H>) {
    const SETTLERS: usize = 4;
    const ROUNDS: usize = 10;
    let kinds: Vec<String> = (0..6).map(|kind| format!("kind.{kind}")).collect();
    let settlers: Vec<_> = (0..SETTLERS)
        .map(|settler| {
            let (probe, kinds) = (probe.clone(), kinds.clone());
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let rows: Vec<_> = kinds
                        .iter()
                        .map(|kind| {
                            let event = Event::json_text(kind, "{}").expect("a plain event");
                            held(event, "settler", probe.ticks(HOLD))
                        })
                        .collect();
                    let born = probe.commit(&rows).await;
                    let mut batch: Vec<_> = rows
                        .iter()
                        .zip(&born)
                        .map(|(row, born)| Settlement {
                            held: Held::row(row.event.id(), born.token.expect("born held")),
                            outcome: Outcome::Done,
                        })
                        .collect();
                    if (settler + round) % 2 == 0 {
                        batch.reverse();
                    }
                    assert_eq!(probe.settle_all(&batch).await.len(), batch.len());
                }
            })
        })
        .collect();
    for settler in settlers {
        settler.await.expect("a settler does not panic");
    }
    let done = (SETTLERS * ROUNDS) as u64;
    for topic in probe.topics().await {
        assert_eq!(topic.counts, Counts { done, ..Counts::default() }, "{}", topic.event_type);
    }
}

/// Looking whether everything is there finds that it is, and changes nothing.
pub async fn a_store_with_its_tables_is_ready<H: StoreHarness>(probe: &Probe<H>) {
    probe.store().check_ready().await.expect("ready");
    probe.commit_due(1).await;
    let held = probe.claim_all("node").await;
    probe.store().check_ready().await.expect("still ready");
    assert!(probe.settle(hold_of(&held[0]), Outcome::Done).await, "it is held as it was");
}
