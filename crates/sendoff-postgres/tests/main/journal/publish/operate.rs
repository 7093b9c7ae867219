use sendoff_core::Failure;
use sendoff_engine::journal::publish::{To, Which};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::eventually;

use super::{append, builder, everything, journal, often, pair, seen, stored};
use crate::journal::position;
use crate::place::Place;

/// Holds J9: by plain SQL, as operators do it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_are_paused_resumed_reset_and_put_back_by_plain_sql() {
    let place = Place::new();
    let journal = journal(&place).await;
    let (one, other) = (Latch::new("one"), Latch::new("other"));
    let node = builder(&journal)
        .pair_with(&everything(), one.publisher(), often())
        .pair_with(&everything(), other.publisher(), often())
        .start()
        .await
        .unwrap();
    append(&journal, 10).await;
    stored(&journal, "one", 10).await;
    place.run("update journal_cursor set status = 'PAUSED' where publisher = 'one'").await;
    seen(&place).await;
    let paused_at = one.positions().len();
    append(&journal, 10).await;
    let head = journal.head().await.unwrap().get();
    stored(&journal, "other", head).await;
    assert_eq!(one.positions().len(), paused_at);
    let lag = journal.publishers().lag(&Which::publisher("one")).await.unwrap();
    assert_eq!(lag[0].1, head - paused_at as u64);
    place
        .run(
            "update journal_cursor set status = 'ACTIVE', error_count = 0, last_error = null \
              where publisher = 'one'",
        )
        .await;
    stored(&journal, "one", head).await;
    assert_eq!(one.positions(), (1..=head).collect::<Vec<_>>());

    // A position that an operator wrote wins, whatever is in memory.
    place.run("update journal_cursor set last_position = 5 where publisher = 'one'").await;
    let count = usize::try_from(head).unwrap();
    one.wait_for(count + count - 5).await;
    assert_eq!(one.positions()[count..], (6..=head).collect::<Vec<_>>());
    stored(&journal, "one", head).await;
    assert_eq!(other.positions().len(), count);
    let all = journal.publishers();
    assert_eq!(
        all.rewind(&Which::pair(&pair("other")), To::Position(position(2))).await.unwrap(),
        1
    );
    other.wait_for(count + count - 2).await;
    node.close().await;
}

/// What is poison is set aside in the table, with the cursor behind it, and comes back by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_is_set_aside_listed_and_tried_again() {
    let place = Place::new();
    let journal = journal(&place).await;
    let latch = Latch::new("p");
    latch.refuse(|fact| {
        [3, 7].contains(&fact.position.get()).then(|| Failure::dead("no such account"))
    });
    append(&journal, 10).await;
    let pair_of = builder(&journal).pair_with(&everything(), latch.publisher(), often());
    let node = pair_of.start().await.unwrap();
    stored(&journal, "p", 10).await;
    assert_eq!(latch.positions(), [1, 2, 4, 5, 6, 8, 9, 10]);
    let publishers = journal.publishers();
    let parked = publishers.parked(&Which::all(), None, 1).await.unwrap();
    assert_eq!((parked[0].position.get(), parked[0].attempts), (3, 1));
    assert_eq!(parked[0].error.as_deref(), Some("no such account"));
    let after = Some((&parked[0].pair, parked[0].position));
    let next = publishers.parked(&Which::all(), after, 10).await.unwrap();
    assert_eq!(next.iter().map(|p| p.position.get()).collect::<Vec<_>>(), [7]);
    assert_eq!(publishers.discard_parked(&Which::all(), Some(position(7))).await.unwrap(), 1);
    publishers.retry_parked(&Which::all(), None).await.unwrap();
    eventually("it failed again", async || {
        publishers.parked(&Which::all(), None, 1).await.unwrap()[0].attempts == 2
    })
    .await;
    latch.accept();
    publishers.retry_parked(&Which::publisher("p"), None).await.unwrap();
    latch.wait_for(9).await;
    eventually("nothing is set aside", async || {
        publishers.parked(&Which::all(), None, 1).await.unwrap().is_empty()
    })
    .await;
    node.close().await;
}
