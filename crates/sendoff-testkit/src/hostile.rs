//! Rows that no writer of ours would leave behind: none stops the others.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

use std::time::Duration;

use sendoff_core::{EventId, Status};
use sendoff_engine::store::{Claim, InspectStore, OutboxStore, Outcome};
use sendoff_engine::{Outbox, OutboxOptions};
use tokio::time::Instant;

use crate::acceptance::Inbox;
use crate::steps::{by, claim, hold_of, settle_one};
use crate::wait::eventually;

/// Holds P3 and fault 29: of the rows there are, the first so many cannot be decoded, and two can.
pub async fn rows_that_cannot_be_decoded_die_alone<S>(store: &S, damaged: usize)
where
    S: OutboxStore + InspectStore + Clone + 'static,
{
    let claimed = claim(store, "a").await;
    let decoded = claimed.iter().map(|row| row.event.is_ok());
    assert!(decoded.eq((0..damaged + 2).map(|nth| nth >= damaged)));
    for row in &claimed {
        assert!(settle_one(store, hold_of(row), Outcome::Released).await);
    }
    let options = OutboxOptions { poll_interval: Duration::from_millis(50), ..Default::default() };
    let inbox = Inbox::new();
    let builder = Outbox::builder(store.clone()).options(options);
    let outbox = builder.on("order.placed", inbox.clone()).start().await.unwrap();
    let over = async || {
        let counts = store.counts().await.unwrap();
        (counts.dead, counts.done) == (damaged as u64, 2)
    };
    eventually("all of the damaged dead, and two delivered", over).await;
    outbox.close().await;
    assert_eq!(inbox.received().len(), 2);
}

/// One of twenty rows refuses to be claimed: whoever claims takes the others. When it has been refused
/// for minutes, it is dead with the reason.
///
/// `write_one` writes another row.
pub async fn a_refused_row_dies_named<S>(
    store: &S,
    refused: EventId,
    mut write_one: impl AsyncFnMut() -> EventId,
) where
    S: OutboxStore + InspectStore,
{
    let began = Instant::now();
    let mut taken = 0;
    while taken < 19 {
        let more = store.claim(&Claim { limit: 20, ..by("a") }).await.unwrap().rows;
        assert!(!more.is_empty() && more.iter().all(|row| row.id != refused));
        taken += more.len();
    }
    let mut found = store.find(refused).await.unwrap().unwrap();
    while found.status != Status::Dead {
        assert!(began.elapsed() < Duration::from_secs(3_600), "an hour is enough");
        later(Duration::from_secs(20)).await;
        let other = write_one().await;
        assert_eq!(claim(store, "a").await[0].id, other);
        found = store.find(refused).await.unwrap().unwrap();
    }
    assert!(began.elapsed() > Duration::from_secs(240), "not before it was refused for minutes");
    let reason = found.last_error.unwrap();
    assert!(reason.contains("this row") && reason.contains("not this one"), "{reason}");
    assert_eq!(store.counts().await.unwrap().dead, 1);
}

/// So much later, by our own clock.
pub async fn later(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// What a row that refuses cuts short is gone on with at once, not an interval later: so many others
/// are handled.
pub async fn whoever_is_after_a_row_that_refuses_does_not_wait<S>(store: S, others: usize)
where
    S: OutboxStore + 'static,
{
    let inbox = Inbox::new();
    let poll_interval = Duration::from_secs(60 * 60);
    let options = OutboxOptions { poll_interval, ..Default::default() };
    let builder = Outbox::builder(store).options(options);
    let outbox = builder.on("order.placed", inbox.clone()).start().await.unwrap();
    eventually("all the others", async || inbox.received().len() == others).await;
    outbox.close().await;
}
