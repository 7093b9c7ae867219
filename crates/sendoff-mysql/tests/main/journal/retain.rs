//! What was let go is no gap, and what is open is not let go.

use std::sync::Arc;

use sendoff_core::journal::Position;
use sendoff_engine::journal::retain::{JournalMaintainer, RetainOptions, RetainReport, Retained};
use sendoff_engine::journal::{AppendError, TailOptions};

use super::{
    Log, QUICK, fact, journal, open_append, position, positions, run, settled, tagged, tail,
};
use crate::place::{MARIADB, MYSQL, Place};

pub(super) async fn keep_last(journal: &Log, count: u64) -> RetainReport {
    let options = RetainOptions { keep_last: Some(count), ..RetainOptions::default() };
    let store = Arc::new(journal.store().clone());
    match JournalMaintainer::new(store, options).unwrap().run_once().await.unwrap() {
        Retained::Here(report) => report,
        Retained::Elsewhere => panic!("nobody else is at work"),
    }
}

async fn append(journal: &Log, count: usize) {
    journal.append((0..count).map(|_| fact("a", &["w=1"]))).await.unwrap();
}

async fn voids(place: &Place) -> i64 {
    place.number("select count(*) from journal_event where event_id is null").await
}

/// Holds J6: more numbers than would ever be filled, and whoever begins below them passes at once.
#[tokio::test]
async fn a_tail_that_begins_below_what_was_let_go_begins_after_it() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        place
            .run(
                "insert into journal_event (position, recorded_at)
                 select 1 + a.slot + 4096 * b.slot, utc_timestamp(6)
                   from journal_anchor a cross join journal_anchor b
                  where b.slot < 30",
            )
            .await;
        journal.append([fact("a", &["w=1"])]).await.unwrap();
        append(&journal, 30).await;
        let head = journal.head().await.unwrap().get();
        let report = keep_last(&journal, 5).await;
        assert_eq!((report.facts, report.finished), (26, true));
        assert_eq!(place.number("select count(*) from journal_event").await, 5, "voids go too");
        assert_eq!(place.number("select count(*) from journal_tag").await, 5);

        let mut reader = tail(&journal).await;
        let first = reader.look().await.unwrap();
        assert_eq!(positions(&first), (head - 4..=head).collect::<Vec<_>>());
        assert_eq!(voids(&place).await, 0, "nothing was filled");
        let mut now = journal.tail_from_now(QUICK).await.unwrap();
        while now.at() == Position::START {
            assert!(now.look().await.unwrap().rows.is_empty());
        }
        assert_eq!(now.at(), position(head));

        keep_last(&journal, 0).await;
        assert_eq!(journal.head().await.unwrap(), position(head));
        let mut late = tail(&journal).await;
        assert!(late.look().await.unwrap().rows.is_empty());
        assert_eq!(late.at(), position(head), "what is gone was passed");
        append(&journal, 1).await;
        for reader in [&mut reader, &mut now, &mut late] {
            assert_eq!(settled(reader).await.0, [head + 1]);
        }
        assert_eq!(voids(&place).await, 0);
    }
}

/// Holds J6: between two looks, also while a gap is being decided.
#[tokio::test]
async fn what_is_let_go_between_two_looks_is_not_filled() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        append(&journal, 10).await;
        let slow = TailOptions { batch: 2, ..QUICK };
        let mut late = journal.tail(Position::START, slow).await.unwrap();
        assert_eq!(positions(&late.look().await.unwrap()), [1, 2]);
        let mut open = open_append(&journal, &place).await;
        append(&journal, 9).await;
        let mut waiting = journal.tail(position(10), QUICK).await.unwrap();
        assert_eq!(waiting.look().await.unwrap().gap, Some((position(11), position(11))));
        run(&mut open, "commit").await;

        assert_eq!(keep_last(&journal, 3).await.facts, 17);
        assert_eq!(positions(&late.look().await.unwrap()), [18, 19]);
        assert_eq!(positions(&late.look().await.unwrap()), [20]);
        assert_eq!(positions(&waiting.look().await.unwrap()), [18, 19, 20]);
        assert_eq!(voids(&place).await, 0);
    }
}

/// A reader that was about to fill a number when it was let go: the void is in nobody's way, and goes.
#[tokio::test]
async fn a_void_that_comes_too_late_is_harmless() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        append(&journal, 20).await;
        let mut reader = tail(&journal).await;
        assert_eq!(settled(&mut reader).await.0.len(), 20);
        keep_last(&journal, 0).await;
        place.run("insert into journal_event (position, recorded_at) values (7, now(6))").await;
        assert!(reader.look().await.unwrap().rows.is_empty());
        let mut late = tail(&journal).await;
        assert!(late.look().await.unwrap().rows.is_empty());
        assert_eq!((reader.at(), late.at()), (position(20), position(20)));
        assert_eq!(keep_last(&journal, 0).await.facts, 0);
        assert_eq!(place.number("select count(*) from journal_event").await, 0);
        append(&journal, 1).await;
        assert_eq!(settled(&mut late).await.0, [21]);
    }
}

/// Holds J6: an append that is open is not passed by those who begin later; and where nobody reads, what
/// was rolled back is in nobody's way.
#[tokio::test]
async fn nothing_is_let_go_above_an_append_that_is_open() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        append(&journal, 1).await;
        let mut undone = open_append(&journal, &place).await;
        append(&journal, 1).await;
        run(&mut undone, "rollback").await;
        let mut open = open_append(&journal, &place).await;
        append(&journal, 2).await;

        let report = keep_last(&journal, 0).await;
        assert_eq!((report.facts, report.finished), (2, true), "1 and 3");
        run(&mut open, "commit").await;
        let mut reader = tail(&journal).await;
        assert_eq!(settled(&mut reader).await.0, [4, 5, 6]);
        assert_eq!(keep_last(&journal, 0).await.facts, 3);
        assert_eq!(place.number("select count(*) from journal_event").await, 0);
        assert_eq!(place.number("select position from journal_gone").await, 6);
    }
}

/// Holds J6: one by one nothing is rolled back, so whatever is filled was taken for a gap and was none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_begins_anew_beside_a_purge_finds_an_order_without_holes() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        append(&journal, 20).await;
        let writer = tokio::spawn({
            let journal = journal.clone();
            async move {
                for _ in 0..300 {
                    journal.append([fact("b", &["w=2"])]).await.unwrap();
                    // Comes by what is being deleted: there still or not any more, and never an error.
                    let gone = tagged("w=1").none_after(Position::START);
                    let said = journal.append_if([fact("c", &["w=3"])], gone).await;
                    assert!(matches!(said, Ok(_) | Err(AppendError::Conflict(_))), "{said:?}");
                }
            }
        });
        let keeper = tokio::spawn({
            let journal = journal.clone();
            async move {
                for keep in (0..30).rev() {
                    keep_last(&journal, keep).await;
                }
            }
        });
        while !(writer.is_finished() && keeper.is_finished()) {
            let passed = settled(&mut tail(&journal).await).await.0;
            passed.windows(2).for_each(|two| assert!(two[0] < two[1], "{two:?}"));
        }
        writer.await.unwrap();
        keeper.await.unwrap();
        assert_eq!(voids(&place).await, 0);
        keep_last(&journal, 3).await;
        let head = journal.head().await.unwrap().get();
        assert_eq!(settled(&mut tail(&journal).await).await.0, [head - 2, head - 1, head]);
    }
}
