//! Rows that rusqlite writes, and confirming them.

use std::time::Duration;

use rusqlite::Connection;
use sendoff_core::{Event, EventId};
use sendoff_engine::Clock;
use sendoff_engine::capture::{BeginBlocking, CaptureBlocking, WriteError};
use sendoff_engine::store::{Birth, ClaimStore, Held, NewRow};

use crate::outbox::{Outbox, born_held, due};

/// Holds W5: in order, in more statements than one, and each as it was asked for.
#[tokio::test]
async fn many_rows_are_written_in_order() {
    let outbox = Outbox::new().await;
    let mut rows: Vec<_> =
        (0..200).map(|n| if n % 2 == 0 { due() } else { born_held("me") }).collect();
    rows.push(NewRow {
        event: Event::builder("later").delay(Duration::from_secs(60)).bytes("x").build().unwrap(),
        birth: Birth::Due,
    });
    let born = outbox.write(&rows);
    let now = outbox.clock.now();
    assert_eq!(born.len(), rows.len());
    for (at, (row, born)) in rows.iter().zip(&born).enumerate() {
        assert_eq!(born.created_at, now);
        assert_eq!(born.token.is_some(), at % 2 == 1, "row {at}");
        let stored = outbox.row(row.event.id()).await;
        assert_eq!(stored.event, restored(&row.event));
        assert_eq!(stored.locked_by.as_deref(), (at % 2 == 1).then_some("me"));
        let after = [0, 10, 60][if at == 200 { 2 } else { at % 2 }];
        assert_eq!(stored.due_at, now.saturating_add(Duration::from_secs(after)), "row {at}");
    }
    let order: Vec<_> = outbox.claim("other").await.iter().map(|claimed| claimed.id).collect();
    let expected: Vec<_> = rows.iter().step_by(2).take(100).map(|row| row.event.id()).collect();
    assert_eq!(order, expected, "oldest first, and no held one");
}

/// The event without what only the writer knows.
fn restored(event: &Event) -> Event {
    let stored: &sendoff_core::StoredEvent = event.as_ref();
    Event::restore(stored.clone()).unwrap()
}

#[tokio::test]
async fn a_connection_to_another_file_is_refused_by_the_driver() {
    let outbox = Outbox::new().await;
    let mut elsewhere = Connection::open_in_memory().unwrap();
    let tx = elsewhere.transaction().unwrap();
    let refused = outbox.store.insert_blocking(&tx, &[due()]);
    assert!(matches!(refused, Err(WriteError::Driver(_))), "{refused:?}");
}

#[tokio::test]
async fn only_committed_rows_with_that_very_token_are_confirmed() {
    let outbox = Outbox::new().await;
    let (kept, undone) = (born_held("me"), born_held("me"));
    let token = outbox.write(std::slice::from_ref(&kept))[0].token.unwrap();
    let mut conn = outbox.store.connect().unwrap();
    let tx = outbox.store.begin_blocking(&mut conn).unwrap();
    let other = outbox.store.insert_blocking(&tx, std::slice::from_ref(&undone)).unwrap()[0].token;
    let stale = sendoff_core::Token::new(outbox.clock.now());
    let holds = [
        Held::row(undone.event.id(), other.unwrap()),
        Held::row(kept.event.id(), token),
        Held::row(kept.event.id(), stale),
        Held::row(EventId::generate(), token),
    ];
    // While the other transaction is open: confirming needs no lock.
    assert_eq!(outbox.store.confirm(&holds).await.unwrap(), [kept.event.id()]);
}
