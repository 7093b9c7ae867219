//! Pausing, resuming, resetting and rewinding pairs, by calls and by SQL.

use sendoff_core::journal::publish::CursorStatus;
use sendoff_core::{Failure, Timestamp};
use sendoff_engine::journal::publish::{To, Which};
use sendoff_engine::store::StoreError;

use super::{
    HOUR, append, builder, cursor, everything, node, numbers, often, pair, position, stored, topic,
    watched,
};
use crate::journal::{Latch, PublishHarness, Rounds};
use crate::wait::eventually;

/// Holds J9: one pair, and a publisher in all its topics.
pub async fn pairs_are_paused_and_go_on_where_they_were(harness: impl PublishHarness) {
    let (journal, rounds) = (harness.journal(), Rounds::new());
    let (one, also, other) = (Latch::new("one"), Latch::new("one"), Latch::new("other"));
    let node = builder(journal)
        .metrics(rounds.clone())
        .pair_with(&everything(), one.publisher(), often())
        .pair_with(&topic("also"), also.publisher(), often())
        .pair_with(&everything(), other.publisher(), often())
        .start()
        .await
        .unwrap();
    append(journal, 10).await;
    for latch in [&one, &also, &other] {
        latch.wait_for(10).await;
    }
    let publishers = journal.publishers();
    assert_eq!(publishers.pause(&Which::publisher("unknown")).await.unwrap(), 0);
    assert_eq!(publishers.pause(&Which::publisher("one")).await.unwrap(), 2);
    rounds.pass(&pair("one")).await;
    append(journal, 10).await;
    other.wait_for(20).await;
    stored(journal, "other", 20).await;
    assert_eq!((one.positions().len(), also.positions().len()), (10, 10));
    assert_eq!(cursor(journal, "one").await.status, CursorStatus::Paused);
    let lag = publishers.lag(&Which::all()).await.unwrap();
    assert_eq!(lag.iter().map(|(_, lag)| *lag).collect::<Vec<_>>(), [10, 10, 0]);
    assert_eq!(publishers.resume(&Which::pair(&pair("one"))).await.unwrap(), 1);
    one.wait_for(20).await;
    rounds.pass(&pair("one")).await;
    assert_eq!(also.positions().len(), 10, "only the one that was named");
    assert_eq!(publishers.reset(&Which::publisher("one")).await.unwrap(), 2);
    also.wait_for(20).await;
    for latch in [one, also, other] {
        assert_eq!(latch.positions(), numbers(1..=20));
    }
    node.close().await;
}

/// Holds J9: the same by plain SQL, which wins over whatever is in memory.
pub async fn plain_sql_pauses_resumes_resets_and_puts_back(harness: impl PublishHarness) {
    let journal = harness.journal();
    let (one, other) = (Latch::new("one"), Latch::new("other"));
    let (node, rounds) = watched(journal, &[&one, &other]).await;
    append(journal, 10).await;
    stored(journal, "one", 10).await;
    let pause = "update journal_cursor set status = 'PAUSED' where publisher = 'one'";
    if !harness.sql(pause).await {
        node.close().await;
        return;
    }
    rounds.pass(&pair("one")).await;
    append(journal, 10).await;
    stored(journal, "other", 20).await;
    assert_eq!(one.positions(), numbers(1..=10));
    let reset = "update journal_cursor set status = 'ACTIVE', error_count = 0, last_error = null \
                  where publisher = 'one'";
    harness.sql(reset).await;
    stored(journal, "one", 20).await;
    assert_eq!(one.positions(), numbers(1..=20));
    let back = "update journal_cursor set last_position = 5 where publisher = 'one'";
    harness.sql(back).await;
    one.wait_for(35).await;
    assert_eq!(one.positions()[20..], numbers(6..=20));
    stored(journal, "one", 20).await;
    assert_eq!(other.positions(), numbers(1..=20));
    // One that is deleted is nobody's; it comes back with the next start.
    harness.sql("delete from journal_cursor where publisher = 'other'").await;
    eventually("it is not led", async || node.statistics().leading == 1).await;
    append(journal, 1).await;
    stored(journal, "one", 21).await;
    assert_eq!(other.positions(), numbers(1..=20));
    node.close().await;
}

/// Holds J9: to a position or a time, back or ahead.
pub async fn a_cursor_is_put_to_a_position_or_a_time(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    append(journal, 10).await;
    let (node, rounds) = watched(journal, &[&latch]).await;
    stored(journal, "p", 10).await;
    let publishers = journal.publishers();
    let to = |number| To::Position(position(number));
    assert_eq!(publishers.rewind(&Which::pair(&pair("p")), to(7)).await.unwrap(), 1);
    latch.wait_for(13).await;
    assert_eq!(latch.positions()[10..], [8, 9, 10]);
    stored(journal, "p", 10).await;
    let long_ago = Timestamp::from_micros(0);
    publishers.rewind(&Which::all(), To::Time(long_ago)).await.unwrap();
    latch.wait_for(23).await;
    assert_eq!(latch.positions()[13..], numbers(1..=10));
    stored(journal, "p", 10).await;
    let far_ahead = Timestamp::now().saturating_add(HOUR);
    publishers.rewind(&Which::all(), To::Time(far_ahead)).await.unwrap();
    assert_eq!(cursor(journal, "p").await.position.get(), 10);
    let nowhere = publishers.rewind(&Which::all(), to(12)).await;
    assert!(matches!(nowhere, Err(StoreError::Misconfigured { .. })), "{nowhere:?}");
    publishers.pause(&Which::all()).await.unwrap();
    rounds.pass(&pair("p")).await;
    append(journal, 3).await;
    publishers.rewind(&Which::all(), to(12)).await.unwrap();
    publishers.resume(&Which::all()).await.unwrap();
    latch.wait_for(24).await;
    assert_eq!(latch.positions()[23..], [13]);
    node.close().await;
}

/// Holds J9: a reset clears the errors of a pair that is trying, and it tries at once.
pub async fn a_reset_clears_the_errors_of_a_pair_that_waits(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    latch.refuse(|_| Some(Failure::retry_after(HOUR, "come back later")));
    append(journal, 3).await;
    let node = node(journal, &[&latch]).await;
    let failed = async || cursor(journal, "p").await.errors == 1;
    eventually("it failed", failed).await;
    assert_eq!(latch.calls(), 1);
    assert_eq!(journal.publishers().reset(&Which::publisher("p")).await.unwrap(), 1);
    eventually("it tries again", async || latch.calls() == 2).await;
    eventually("it failed once", failed).await;
    latch.accept();
    journal.publishers().reset(&Which::all()).await.unwrap();
    stored(journal, "p", 3).await;
    assert_eq!(cursor(journal, "p").await.errors, 0);
    node.close().await;
}
