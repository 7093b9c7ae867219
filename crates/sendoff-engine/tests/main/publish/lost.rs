//! Answers that do not arrive.

use sendoff_core::journal::Fact;
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{PublishStore, Publishing};
use sendoff_testkit::history::LogHistory;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;

use super::shaky::{Call, Shaky};
use super::{MINUTE, everything};
use crate::SECOND;

async fn append(journal: &Journal<Shaky>, count: usize, history: &LogHistory) {
    for _ in 0..count {
        let fact = Fact::builder(("moved", "{}")).build().unwrap();
        let receipts = journal.append([fact.clone()]).await.unwrap();
        history.recorded(&fact, receipts[0].position);
    }
}

fn judge(history: &LogHistory) {
    for (reader, verdict) in history.verdicts() {
        assert!(verdict.is_clean(), "{reader}: {verdict}");
    }
}

/// Holds J8: a pair is led although nobody heard that it was taken.
#[tokio::test(start_paused = true)]
async fn a_pair_whose_taking_was_not_answered_is_worked_all_the_same() {
    let store = Shaky::default();
    let (journal, history) = (Journal::new(store.clone()), LogHistory::of([("p", everything())]));
    let latch = Latch::recording("p", &history);
    store.lose(Call::Take, 2);
    let node = Publishing::builder(&journal).pair(&everything(), latch.publisher());
    let node = node.start().await.unwrap();
    append(&journal, 10, &history).await;
    latch.wait_for(10).await;
    assert_eq!(store.lost_at().len(), 2);
    node.close().await;
    judge(&history);
}

/// Holds J12, G4: giving up is tried again, after a pause, and duplicates nothing.
#[tokio::test(start_paused = true)]
async fn giving_up_that_was_not_answered_is_tried_again_after_a_pause() {
    let store = Shaky::default();
    let readers = [("p", everything()), ("q", everything())];
    let (journal, history) = (Journal::new(store.clone()), LogHistory::of(readers));
    let latches = ["p", "q"].map(|name| Latch::recording(name, &history));
    let start = async |name: &str| {
        let builder = Publishing::builder(&journal);
        let node = latches.iter().fold(builder, |b, latch| b.pair(&everything(), latch.on(name)));
        node.start().await.unwrap()
    };
    let first = start("first").await;
    within(MINUTE, "all are led", async || first.statistics().leading == 2).await;
    store.lose(Call::Give, 5);
    let second = start("second").await;
    within(MINUTE, "they are shared", async || {
        (first.statistics().leading, second.statistics().leading) == (1, 1)
    })
    .await;
    append(&journal, 10, &history).await;
    for latch in &latches {
        latch.wait_for(10).await;
    }
    let lost_at = store.lost_at();
    assert!(lost_at.windows(2).all(|pair| pair[1] - pair[0] >= SECOND / 10), "{lost_at:?}");
    first.close().await;
    second.close().await;
    judge(&history);
}

/// Holds J6: a cursor of which nobody knows whether it moved is asked for; what was published since may
/// come again, and nothing is skipped.
#[tokio::test(start_paused = true)]
async fn a_cursor_whose_moving_was_not_answered_goes_on_where_it_is() {
    let store = Shaky::default();
    let (journal, history) = (Journal::new(store.clone()), LogHistory::of([("p", everything())]));
    let latch = Latch::recording("p", &history);
    let node = Publishing::builder(&journal).pair(&everything(), latch.publisher());
    let node = node.start().await.unwrap();
    store.record(&history);
    for _ in 0..5 {
        store.lose(Call::Advance, 1);
        append(&journal, 10, &history).await;
        within(MINUTE, "it is stored", async || {
            let head = journal.head().await.unwrap();
            store.survey().await.unwrap().cursors[0].position == head
        })
        .await;
    }
    assert_eq!(store.lost_at().len(), 5);
    node.close().await;
    judge(&history);
}
