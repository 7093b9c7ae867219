//! What a tail passes on, in which order and how much at once.

use std::time::Duration;

use sendoff_core::journal::{Position, Query};
use sendoff_engine::journal::{JournalStore, Page, TailOptions};

use super::{append_in, fact, found, position};
use crate::journal::large::large;
use crate::journal::{Ending, JournalHarness};

const QUICK: TailOptions = TailOptions {
    batch: 3,
    batch_bytes: 1024,
    interval: Duration::from_millis(5),
    gap_interval: Duration::from_millis(2),
};

/// J6: also beside what is rolled back.
pub async fn a_tail_passes_on_everything_in_order(harness: impl JournalHarness) {
    let journal = harness.journal();
    let mut expected = Vec::new();
    for round in 0..10 {
        let facts = [fact("t", &["w=1"]), fact("t", &["w=2"])];
        if round % 3 == 2 {
            append_in(&harness, &facts, None, Ending::RollBack).await.unwrap();
        } else {
            let receipts = append_in(&harness, &facts, None, Ending::Commit).await.unwrap();
            expected.extend(receipts.iter().map(|receipt| receipt.position));
        }
    }
    for from in [Position::START, expected[4]] {
        let mut tail = journal.tail(from, QUICK).await.unwrap();
        let mut passed = Vec::new();
        while passed.last() != expected.last() {
            let batch = tail.next().await.unwrap();
            assert!(batch.rows.len() <= QUICK.batch);
            passed.extend(batch.rows.iter().map(|row| row.position));
        }
        let after: Vec<_> = expected.iter().copied().filter(|at| *at > from).collect();
        assert_eq!(passed, after);
    }
}

/// J6: and is woken for it.
pub async fn a_tail_from_now_sees_what_comes(harness: impl JournalHarness) {
    let journal = harness.journal();
    journal.append([fact("old", &[])]).await.unwrap();
    let hour = Duration::from_secs(3_600);
    let mut tail = journal.tail_from_now(TailOptions { interval: hour, ..QUICK }).await.unwrap();
    while tail.at() < journal.head().await.unwrap() {
        assert!(tail.look().await.unwrap().rows.is_empty());
    }
    let (batch, receipts) = tokio::join!(tail.next(), journal.append([fact("new", &[])]));
    assert_eq!(batch.unwrap().rows[0].position, receipts.unwrap()[0].position);
}

/// J6: what is read at once has so many bytes at most, or is one fact, however large facts are; and
/// nothing is left out for that.
pub async fn what_is_read_at_once_is_bounded_in_bytes(harness: impl JournalHarness) {
    let journal = harness.journal();
    let sizes = [10_000, 40_000, 40_000, 15_000, 200_000, 200_000, 5, 60_000, 60_000];
    for bytes in sizes {
        journal.append([large(bytes)]).await.unwrap();
    }
    let most = 100_000;
    let options = TailOptions { batch: 100, batch_bytes: most, ..QUICK };
    let mut tail = journal.tail(Position::START, options).await.unwrap();
    let (mut batches, mut passed) = (Vec::new(), Vec::new());
    while passed.len() < sizes.len() {
        let batch = tail.next().await.unwrap();
        batches.push(batch.rows.len());
        passed.extend(batch.rows.iter().map(|row| row.position.get()));
    }
    assert_eq!(passed, (1..=9).collect::<Vec<_>>());
    assert_eq!(batches, [3, 1, 1, 1, 2, 1]);

    let page =
        |after, limit| Page { after: position(after), up_to: Position::END, limit, bytes: most };
    for (after, limit, count, more) in [
        (0, 100, 3, true),
        (0, 2, 2, true),
        (4, 100, 1, true),
        (6, 100, 2, true),
        (8, 100, 1, false),
    ] {
        let read = journal.store().read(&Query::all(), page(after, limit)).await.unwrap();
        assert_eq!((read.facts.len(), read.more), (count, more), "after {after}, {limit} rows");
    }
    assert_eq!(found(journal, Query::all()).await.len(), 9);
}
