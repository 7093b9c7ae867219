use std::time::Duration;

use sendoff_core::EventId;
use sendoff_engine::store::{InspectStore, Outcome, RetainStore};
use sendoff_sqlite::{Retention, SqliteOptions};

use crate::outbox::{Outbox, due, held};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn delivered(outbox: &Outbox) -> EventId {
    let id = outbox.write_due();
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), Outcome::Done).await);
    id
}

#[tokio::test]
async fn only_what_was_done_long_enough_ago_is_purged_oldest_first() {
    let outbox = Outbox::new().await;
    let first = delivered(&outbox).await;
    let second = delivered(&outbox).await;
    outbox.clock.advance(DAY);
    assert_eq!(outbox.store.purge(DAY, 10).await.unwrap(), 0, "a day ago is not longer than that");
    let young = delivered(&outbox).await;
    outbox.clock.advance(Duration::from_micros(1));

    assert_eq!(outbox.store.purge(DAY, 0).await.unwrap(), 0);
    assert_eq!(outbox.store.purge(DAY, 1).await.unwrap(), 1);
    assert!(outbox.store.find(first).await.unwrap().is_none());
    assert!(outbox.store.find(second).await.unwrap().is_some());
    assert_eq!(outbox.store.purge(DAY, 10).await.unwrap(), 1);
    assert_eq!(outbox.store.purge(DAY, 10).await.unwrap(), 0);
    assert!(outbox.store.find(young).await.unwrap().is_some());
}

#[tokio::test]
async fn an_old_row_that_was_done_lately_stays() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    outbox.clock.advance(DAY * 3);
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), Outcome::Done).await);
    outbox.clock.advance(DAY);
    assert_eq!(outbox.store.purge(DAY * 2, 10).await.unwrap(), 0);
    assert!(outbox.store.find(id).await.unwrap().is_some());
}

#[tokio::test]
async fn pending_and_dead_rows_are_walked_past_and_never_purged() {
    let outbox = Outbox::new().await;
    // More than one step of the walk, in rows that must stay.
    outbox.write(&(0..2_500).map(|_| due()).collect::<Vec<_>>());
    outbox.execute("update outbox_event set status = 3 where seq % 2 = 0");
    outbox.execute("update outbox_event set due_at = due_at + 864000000000 where status = 0");
    let done = delivered(&outbox).await;
    outbox.clock.advance(DAY);
    assert_eq!(outbox.store.purge(Duration::ZERO, 10).await.unwrap(), 1);
    assert!(outbox.store.find(done).await.unwrap().is_none());
    let counts = outbox.store.counts().await.unwrap();
    assert_eq!((counts.new, counts.done, counts.dead), (1_250, 0, 1_250));
}

#[tokio::test]
async fn the_store_says_how_long_it_keeps() {
    for (retention, keeps) in [(Retention::DeleteWhenDone, None), (Retention::Keep(DAY), Some(DAY))]
    {
        let outbox = Outbox::with(SqliteOptions { retention, ..Default::default() }).await;
        assert_eq!(outbox.store.keeps(), keeps);
    }
}
