//! Rows that are locked for a batch: kept, settled, put back.

use std::collections::BTreeSet;
use std::time::Duration;

use sendoff_core::{Event, EventId, Holding, Status};
use sendoff_engine::store::{
    Counts, EventKind, Except, Held, InspectStore, Lock, LockStore, Outcome, RetainStore, Row,
    Settlement,
};

use super::claim::heavy;
use crate::conformance::probe::{HOLD, due, ids};
use crate::conformance::{Probe, StoreHarness};
use crate::wait::answer;

/// All that a batch must leave alone.
type Content = (Status, u32, u32, sendoff_core::Timestamp, Option<String>, Option<String>);

async fn content<H: StoreHarness>(probe: &Probe<H>, id: EventId) -> Content {
    let Row { status, attempts, losses, due_at, last_error, locked_by, .. } = probe.row(id).await;
    (status, attempts, losses, due_at, last_error, locked_by)
}

/// A new row, one that failed before, and one that a vanished holder left behind: all visible.
async fn three_stories<H: StoreHarness>(probe: &Probe<H>) -> Vec<EventId> {
    let failed = probe.take_one("node").await;
    let retry = Outcome::Retry { delay: probe.ticks(0), attempts: 3, error: "first".to_owned() };
    assert!(probe.settle(failed, retry).await);
    let lost = probe.commit_held("vanished", 1).await.id;
    let new = probe.commit_due(1).await[0];
    probe.pass(2).await;
    vec![failed.id, lost, new]
}

/// No visible row means no batch, and a batch is never empty. Holds L2.
pub async fn nothing_to_lock_is_an_answer_of_its_own<H: StoreHarness>(probe: &Probe<H>) {
    assert!(probe.lock(10).await.is_none());
    probe.commit_held("writer", HOLD).await;
    assert!(probe.lock(10).await.is_none(), "held is not visible");
    probe.commit_due(1).await;
    assert!(probe.lock(0).await.is_none(), "nothing was asked for");
    let mut batch = probe.lock(10).await.expect("one is visible");
    assert_eq!(batch.take().len(), 1);
    assert!(batch.take().is_empty(), "taken once");
    batch.rollback().await.expect("rollback");
}

/// A lock leaves its rows as they are, and takes them in the order of claims. Holds L4.
pub async fn locking_writes_nothing_and_takes_the_oldest_due<H: StoreHarness>(probe: &Probe<H>) {
    let mut written = Vec::new();
    for _ in 0..3 {
        written.extend(probe.commit_due(1).await);
        probe.pass(1).await;
    }
    let before = content(probe, written[0]).await;
    let mut batch = probe.lock(2).await.expect("three are visible");
    let rows = batch.take();
    assert_eq!(ids(&rows), written[..2]);
    assert_eq!((rows[0].attempts, rows[0].lost, rows[0].was_due), (0, false, before.3));
    assert!(rows.iter().all(|row| row.by == Holding::Lock), "{rows:?}");
    assert!(rows.iter().all(|row| row.event.is_ok()));
    assert_eq!(content(probe, written[0]).await, before);
    batch.commit(&[]).await.expect("commit");
    assert_eq!(content(probe, written[0]).await, before, "nothing was settled");
}

/// Nothing but the transaction that has it can settle by a lock, while it is open and afterwards: a
/// holding of one kind is never taken for one of another (I2). Holds S5.
pub async fn a_lock_proves_nothing_outside_of_its_transaction<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.commit_due(2).await;
    let before = content(probe, written[0]).await;
    let mut batch = probe.lock(1).await.expect("two are visible");
    let held = batch.take()[0].held();
    assert_eq!(held, Held { id: written[0], by: Holding::Lock });
    let refused = async || {
        assert!(!probe.settle(held, Outcome::Done).await);
        assert_eq!(probe.extend(&[held]).await, []);
        assert_eq!(probe.confirm(&[held]).await, []);
    };
    refused().await;
    batch.rollback().await.expect("rollback");
    refused().await;
    assert_eq!(content(probe, written[0]).await, before);
    // Beside one that proves itself: it is passed over, and takes no other's place.
    let row = probe.claim_all("a").await.remove(1).held();
    let done = |held| Settlement { held, outcome: Outcome::Done };
    assert_eq!(probe.settle_all(&[done(held), done(row)]).await, [written[1]]);
}

/// Batches that are open at once share the rows out. Holds S5.
pub async fn two_locked_batches_never_share_a_row<H: StoreHarness>(probe: &Probe<H>) {
    let written: BTreeSet<EventId> = probe.commit_due(60).await.into_iter().collect();
    let settled =
        |ids: &[EventId]| -> Vec<_> { ids.iter().map(|id| (*id, Outcome::Done)).collect() };
    let mut first = probe.lock(7).await.expect("sixty are visible");
    let mut mine = ids(&first.take());
    // Where a store locks more than rows, nothing is left for others meanwhile.
    if let Some(mut second) = probe.lock(7).await {
        let theirs = ids(&second.take());
        assert!(theirs.iter().all(|id| !mine.contains(id)), "{theirs:?}");
        second.rollback().await.expect("rollback");
    }
    first.commit(&settled(&mine)).await.expect("commit");

    let lockers: Vec<_> = (0..4)
        .map(|_| {
            let probe = probe.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                while probe.topics().await[0].counts.pending() > 0 {
                    let Some(mut batch) = probe.lock(7).await else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    let ids = ids(&batch.take());
                    assert!(!ids.is_empty() && ids.len() <= 7);
                    let done: Vec<_> = ids.iter().map(|id| (*id, Outcome::Done)).collect();
                    batch.commit(&done).await.expect("commit");
                    mine.extend(ids);
                }
                mine
            })
        })
        .collect();
    for locker in lockers {
        mine.extend(locker.await.expect("a locker does not panic"));
    }
    assert_eq!(mine.len(), written.len(), "none twice");
    assert_eq!(mine.into_iter().collect::<BTreeSet<_>>(), written);
}

/// Claims pass locked rows by, and get them when the batch is over. Holds S5.
pub async fn locked_rows_are_not_claimed<H: StoreHarness>(probe: &Probe<H>) {
    let id = probe.commit_due(1).await[0];
    let batch = probe.lock(10).await.expect("one is visible");
    // A store that locks more than rows makes the claim wait, and this one does not wait for it.
    let claim = probe.clone();
    let waiting = tokio::spawn(async move { ids(&claim.claim_all("node").await) });
    let answer = tokio::time::timeout(probe.ticks(2), waiting).await;
    if let Ok(claimed) = answer {
        assert_eq!(claimed.expect("no panic"), []);
        batch.rollback().await.expect("rollback");
        assert_eq!(ids(&probe.claim_all("node").await), [id]);
    } else {
        batch.rollback().await.expect("rollback");
    }
}

/// A rollback leaves attempts, due times and all else as they were, and frees the rows at once. Holds L2 and L4.
pub async fn a_rolled_back_batch_leaves_everything_as_it_was<H: StoreHarness>(probe: &Probe<H>) {
    let written = three_stories(probe).await;
    let mut before = Vec::new();
    for id in &written {
        before.push(content(probe, *id).await);
    }
    let mut batch = probe.lock(10).await.expect("three are visible");
    let locked: BTreeSet<_> = ids(&batch.take()).into_iter().collect();
    assert_eq!(locked, written.iter().copied().collect());
    batch.keep_awake().await.expect("keep awake");
    batch.rollback().await.expect("rollback");
    for (id, before) in written.iter().zip(&before) {
        assert_eq!(content(probe, *id).await, *before);
    }
    assert_eq!(probe.topics().await[0].counts.dead, 0, "nothing is counted either");
    let mut again = probe.lock(10).await.expect("free at once");
    assert_eq!(again.take().len(), 3);
    again.rollback().await.expect("rollback");
}

/// A batch that is dropped is rolled back, and its connection is not used half-way. Holds L4.
pub async fn a_dropped_batch_leaves_everything_as_it_was<H: StoreHarness>(probe: &Probe<H>) {
    let written = three_stories(probe).await;
    let before = content(probe, written[0]).await;
    for _ in 0..3 {
        // The rollback reaches the server by itself, and soon.
        let mut batch = answer("the rows are free again", async || probe.lock(10).await).await;
        assert_eq!(batch.take().len(), 3);
        batch.keep_awake().await.expect("keep awake");
        drop(batch);
    }
    let mut batch = answer("the rows are free again", async || probe.lock(10).await).await;
    assert_eq!(batch.take().len(), 3);
    batch.rollback().await.expect("rollback");
    assert_eq!(content(probe, written[0]).await, before);
}

/// A commit stores each outcome and leaves the rest alone. Holds L2.
pub async fn a_committed_batch_stores_every_outcome<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.commit_due(5).await;
    let untouched = content(probe, written[3]).await;
    let stranger = probe.commit_held("somebody", HOLD).await.id;
    let mut batch = probe.lock(5).await.expect("five are visible");
    batch.take();
    let outcomes = [
        (written[0], Outcome::Done),
        (written[1], Outcome::Retry { delay: probe.ticks(9), attempts: 4, error: "r".to_owned() }),
        (written[2], Outcome::dead(10, "d")),
        (EventId::generate(), Outcome::Done),
    ];
    batch.commit(&outcomes).await.expect("commit");

    match probe.find(written[0]).await {
        Some(row) => {
            assert_eq!((row.status, row.locked_by), (Status::Done, None));
            assert!(row.done_at.is_some());
        }
        None => assert!(probe.store().keeps().is_none()),
    }
    let row = probe.row(written[1]).await;
    assert_eq!((row.status, row.attempts), (Status::Retry, 4));
    assert_eq!(row.last_error.as_deref(), Some("r"));
    let row = probe.row(written[2]).await;
    assert_eq!((row.status, row.attempts), (Status::Dead, 10));
    assert!(row.done_at.is_some());
    assert_eq!(content(probe, written[3]).await, untouched);
    assert_eq!(probe.row(stranger).await.status, Status::New);
    let counts = probe.topics().await.remove(0).counts;
    assert_eq!((counts.done, counts.dead, counts.retry), (1, 1, 1));
}

/// A transaction that was open for a while does not shorten a retry's delay. Holds L4.
pub async fn a_locked_retry_is_due_by_the_clock_of_its_settlement<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let id = probe.commit_due(1).await[0];
    let mut batch = probe.lock(1).await.expect("one is visible");
    batch.take();
    probe.pass(3).await;
    let delay = probe.ticks(5);
    let retry = [(id, Outcome::Retry { delay, attempts: 1, error: "no".to_owned() })];
    // By the store's own clock: nothing else of it may be busy while a batch is open.
    let (settled, at) = probe.timed(batch.commit(&retry)).await;
    settled.expect("commit");
    at.after(delay).assert_has(probe.row(id).await.due_at);
}

/// A vanished holder's attempt is counted by whoever locks the row, when it settles it.
pub async fn a_locked_row_that_was_lost_counts_its_loss_when_it_is_settled<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let id = probe.commit_held("vanished", 1).await.id;
    probe.pass(2).await;
    let mut batch = probe.lock(1).await.expect("its hold is over");
    let row = batch.take().remove(0);
    assert_eq!((row.attempts, row.lost), (1, true));
    assert_eq!(row.attempt().number, 1, "the run that the loss was");
    let retry = Outcome::Retry { delay: probe.ticks(0), attempts: 1, error: "no".to_owned() };
    batch.commit(&[(id, retry)]).await.expect("commit");
    let row = probe.row(id).await;
    assert_eq!((row.attempts, row.losses, row.locked_by), (1, 0, None));
}

/// Windows and the age asked for narrow a lock as they do a claim. Holds L9.
pub async fn a_window_narrows_a_lock_too<H: StoreHarness>(probe: &Probe<H>) {
    let old = probe.commit_due(1).await[0];
    probe.pass(6).await;
    let young = probe.commit_due(1).await[0];
    let all = Lock::new(10);
    for (lock, expected) in [
        (Lock { window: Some(probe.ticks(4)), ..all }, vec![young]),
        (Lock { skip_recent: probe.ticks(4), ..all }, vec![old]),
        (all, vec![old, young]),
    ] {
        let mut batch = probe.store().lock(&lock).await.expect("lock").expect("some are visible");
        assert_eq!(ids(&batch.take()), expected);
        batch.rollback().await.expect("rollback");
    }
}

/// A lock whose future was dropped on its way holds nothing back. Holds L4.
pub async fn a_lock_that_is_not_awaited_to_its_end_keeps_nothing<H: StoreHarness>(
    probe: &Probe<H>,
) {
    probe.commit_due(3).await;
    for patience in [0, 50, 100, 200, 400, 800, 1_600] {
        let lock = probe.lock(3);
        let _ = tokio::time::timeout(Duration::from_micros(patience), lock).await;
    }
    let mut batch = answer("the rows are free again", async || {
        let mut batch = probe.lock(3).await?;
        let rows = batch.take();
        (rows.len() == 3).then_some(batch)
    })
    .await;
    assert!(batch.take().is_empty());
    batch.rollback().await.expect("rollback");
    let counts = probe.store().counts().await.expect("counts");
    assert_eq!(counts, Counts { new: 3, ..Counts::default() });
}

/// As a claim is: bounded in bytes, and beginning where it is told.
pub async fn a_lock_is_bounded_in_bytes_and_begins_where_it_is_told<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let rows: Vec<_> = [20_000, 4_000, 4_000, 4_000].map(heavy).map(due).into();
    let written: Vec<_> = rows.iter().map(|row| row.event.id()).collect();
    probe.commit(&rows).await;
    probe.pass(1).await;
    let last = probe.commit_due(1).await;
    let from = Some(probe.row(last[0]).await.due_at);
    for (bytes, from, expected) in [
        (10_000, None, &written[..1]),
        (25_000, None, &written[..2]),
        (0, None, &written[..1]),
        (usize::MAX, from, &last[..]),
    ] {
        let lock = Lock { bytes, from, ..Lock::new(10) };
        let mut batch = probe.store().lock(&lock).await.expect("lock").expect("rows are visible");
        assert_eq!(ids(&batch.take()), expected);
        batch.rollback().await.expect("rollback");
    }
}

/// A lock leaves kinds of events alone that it is told to.
pub async fn a_lock_leaves_out_the_kinds_it_is_told_to<H: StoreHarness>(probe: &Probe<H>) {
    let of = |(aggregate, event_type): (&'static str, &'static str)| {
        let event = Event::builder(event_type).aggregate(aggregate, "1").json(&1).build();
        due(event.expect("an event"))
    };
    let kinds = [("x", "a"), ("x", "A"), ("y", "a"), ("x", "a "), ("it's", "\""), ("x", "a")];
    let rows = kinds.map(of);
    let id = |at: usize| rows[at].event.id();
    let kind = |at: usize| EventKind::of(&rows[at].event);
    probe.commit(&rows).await;
    let (except, rest) = ([kind(0), kind(4)], [kind(1), kind(2), kind(3)]);
    let others = Lock { except: Except::kinds(&except), ..Lock::new(10) };
    for (lock, expected) in [
        (Lock { limit: 2, ..others }, vec![id(1), id(2)]),
        (others, vec![id(1), id(2), id(3)]),
        (Lock { except: Except::kinds(&rest), ..others }, vec![id(0), id(4), id(5)]),
    ] {
        let mut batch = probe.store().lock(&lock).await.expect("lock").expect("some are visible");
        assert_eq!(ids(&batch.take()), expected);
        batch.rollback().await.expect("rollback");
    }
    let all = [kind(0), kind(1), kind(2), kind(3), kind(4)];
    let none =
        probe.store().lock(&Lock { except: Except::kinds(&all), ..others }).await.expect("lock");
    assert!(none.is_none());
}
