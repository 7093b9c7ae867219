//! What an operator does, while it runs.

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::CursorStatus;
use sendoff_engine::journal::publish::{PairOptions, Publishing, To, Which};
use sendoff_testkit::journal::Latch;

use super::{MINUTE, append, cursor, everything, journal, node, stored};
use crate::SECOND;

/// Holds J9.
#[tokio::test(start_paused = true)]
async fn a_paused_publisher_stops_and_no_other_and_goes_on_where_it_was() {
    let (journal, one, other) = (journal(), Latch::new("one"), Latch::new("other"));
    let node = Publishing::builder(&journal)
        .pair(&everything(), one.publisher())
        .pair(&everything(), other.publisher())
        .start()
        .await
        .unwrap();
    append(&journal, 10).await;
    stored(&journal, "one", 10).await;
    let publishers = journal.publishers();
    assert_eq!(publishers.pause(&Which::publisher("one")).await.unwrap(), 1);
    assert_eq!(publishers.pause(&Which::publisher("unknown")).await.unwrap(), 0);
    // It is found at the next round.
    tokio::time::sleep(SECOND).await;
    append(&journal, 10).await;
    other.wait_for(20).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(one.positions().len(), 10);
    assert_eq!(cursor(&journal, "one").await.status, CursorStatus::Paused);
    let lag = publishers.lag(&Which::all()).await.unwrap();
    assert_eq!(lag.iter().map(|(_, lag)| *lag).collect::<Vec<_>>(), [10, 0]);
    publishers.resume(&Which::publisher("one")).await.unwrap();
    one.wait_for(20).await;
    assert_eq!(one.positions(), (1..=20).collect::<Vec<_>>());
    node.close().await;
}

/// Holds J9: an operator's position wins over what is in memory.
#[tokio::test(start_paused = true)]
async fn a_cursor_can_be_put_back_and_ahead_to_a_position_or_a_time() {
    let (journal, latch) = (journal(), Latch::new("p"));
    append(&journal, 10).await;
    let node = node(&journal, &latch, PairOptions::default()).await;
    latch.wait_for(10).await;
    stored(&journal, "p", 10).await;
    let publishers = journal.publishers();
    let to = |number| To::Position(Position::new(number).unwrap());
    publishers.rewind(&Which::all(), to(7)).await.unwrap();
    latch.wait_for(13).await;
    assert_eq!(latch.positions()[10..], [8, 9, 10]);
    stored(&journal, "p", 10).await;
    let long_ago = sendoff_core::Timestamp::from_micros(0);
    publishers.rewind(&Which::all(), To::Time(long_ago)).await.unwrap();
    latch.wait_for(23).await;
    assert_eq!(latch.positions()[13..], (1..=10).collect::<Vec<_>>());
    stored(&journal, "p", 10).await;
    publishers.rewind(&Which::all(), to(12)).await.unwrap();
    tokio::time::sleep(2 * SECOND).await;
    append(&journal, 3).await;
    latch.wait_for(24).await;
    assert_eq!(latch.positions()[23..], [13]);
    node.close().await;
}
