use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_engine::journal::TailOptions;

use super::{append_in, fact};
use crate::journal::{Ending, JournalHarness};

const QUICK: TailOptions = TailOptions {
    batch: 3,
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
