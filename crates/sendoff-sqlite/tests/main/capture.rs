use std::time::Duration;

use rusqlite::Connection;
use sendoff_core::{Event, EventId};
use sendoff_engine::Clock;
use sendoff_engine::capture::{
    BeginBlocking, CaptureBlocking, CommitBlocking, CommitError, NestBlocking, ReleaseBlocking,
    WriteError,
};
use sendoff_engine::store::{Birth, ClaimStore, Held, InspectStore, NewRow};

use crate::outbox::{Outbox, born_held, due};

/// Holds W1.
#[tokio::test]
async fn a_write_without_a_transaction_is_refused() {
    let outbox = Outbox::new().await;
    let mut conn = outbox.store.connect().unwrap();
    let refused = outbox.store.insert_blocking(&conn, &[due()]);
    assert!(matches!(refused, Err(WriteError::NoTransaction)), "{refused:?}");

    // A transaction that was ended by hand is none any more, whatever its type says.
    let mut tx = conn.transaction().unwrap();
    tx.execute_batch("rollback").unwrap();
    let refused = outbox.store.insert_blocking(&tx, &[due()]);
    assert!(matches!(refused, Err(WriteError::NoTransaction)), "{refused:?}");
    assert!(outbox.store.savepoint_blocking(&mut tx).is_err());
    let refused = outbox.store.commit_blocking(tx, &[due()]);
    assert!(matches!(refused, Err(CommitError::Refused(WriteError::NoTransaction))));
    assert_eq!(outbox.store.counts().await.unwrap().new, 0);
}

/// Holds W1.
#[tokio::test]
async fn a_connection_in_a_transaction_begun_by_hand_can_be_written_through() {
    let outbox = Outbox::new().await;
    let conn = outbox.store.connect().unwrap();
    conn.execute_batch("begin").unwrap();
    outbox.store.insert_blocking(&conn, &[due()]).unwrap();
    conn.execute_batch("commit").unwrap();
    assert_eq!(outbox.store.counts().await.unwrap().new, 1);
}

/// Holds W2: on the caller's connection, NEW, attempts 0, and the end is the caller's.
#[tokio::test]
async fn a_row_is_seen_by_others_only_after_the_callers_commit() {
    let outbox = Outbox::new().await;
    let mut conn = outbox.store.connect().unwrap();
    let row = due();
    let tx = conn.transaction().unwrap();
    outbox.store.insert_blocking(&tx, std::slice::from_ref(&row)).unwrap();
    assert!(!tx.is_autocommit());
    assert!(outbox.store.find(row.event.id()).await.unwrap().is_none());
    assert!(outbox.claim("a").await.is_empty());

    tx.commit().unwrap();
    let found = outbox.row(row.event.id()).await;
    assert_eq!((found.status.code(), found.attempts, found.locked_by), (0, 0, None));
    assert_eq!(outbox.again().await.counts().await.unwrap().new, 1);
}

/// Holds W2.
#[tokio::test]
async fn a_rolled_back_transaction_leaves_nothing() {
    let outbox = Outbox::new().await;
    let mut conn = outbox.store.connect().unwrap();
    let tx = outbox.store.begin_blocking(&mut conn).unwrap();
    outbox.store.insert_blocking(&tx, &[due()]).unwrap();
    outbox.store.rollback_blocking(tx).unwrap();
    let tx = outbox.store.begin_blocking(&mut conn).unwrap();
    outbox.store.insert_blocking(&tx, &[due()]).unwrap();
    drop(tx);
    assert_eq!(outbox.store.counts().await.unwrap().new, 0);
}

#[tokio::test]
async fn savepoints_keep_and_undo_what_was_written_under_them() {
    let outbox = Outbox::new().await;
    let store = &outbox.store;
    let mut conn = store.connect().unwrap();
    let mut tx = store.begin_blocking(&mut conn).unwrap();
    let rows = [due(), due(), due(), due()];
    let one = |at: usize| std::slice::from_ref(&rows[at]);

    let mut kept = store.savepoint_blocking(&mut tx).unwrap();
    store.insert_blocking(&kept, one(0)).unwrap();
    let undone = store.savepoint_blocking(&mut kept).unwrap();
    store.insert_blocking(&undone, one(1)).unwrap();
    store.roll_back_to_blocking(undone).unwrap();
    store.release_blocking(kept).unwrap();
    let dropped = store.savepoint_blocking(&mut tx).unwrap();
    store.insert_blocking(&dropped, one(2)).unwrap();
    drop(dropped);
    store.commit_blocking(tx, one(3)).unwrap();

    let mut there = Vec::new();
    for row in &rows {
        there.push(store.find(row.event.id()).await.unwrap().is_some());
    }
    assert_eq!(there, [true, false, false, true]);
}

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

/// Holds W5: all or none.
#[tokio::test]
async fn a_duplicate_anywhere_writes_nothing_and_leaves_the_transaction_open() {
    let outbox = Outbox::new().await;
    let first = due();
    outbox.write(std::slice::from_ref(&first));
    for others in [1, 63, 64, 150] {
        let mut rows: Vec<_> = (0..others).map(|_| due()).collect();
        rows.push(first.clone());
        let mut conn = outbox.store.connect().unwrap();
        let tx = outbox.store.begin_blocking(&mut conn).unwrap();
        let refused = outbox.store.insert_blocking(&tx, &rows);
        assert!(matches!(refused, Err(WriteError::DuplicateId)), "{others}: {refused:?}");
        assert!(!tx.is_autocommit());
        tx.commit().unwrap();
        assert_eq!(outbox.store.counts().await.unwrap().new, 1, "{others}");
    }
}

#[tokio::test]
async fn a_refused_commit_is_rolled_back_and_says_so() {
    let outbox = Outbox::new().await;
    let mut conn = outbox.store.connect().unwrap();
    conn.execute_batch(
        "create table parent (id integer primary key);
         create table child (parent integer references parent deferrable initially deferred);",
    )
    .unwrap();
    let tx = outbox.store.begin_blocking(&mut conn).unwrap();
    tx.execute("insert into child values (1)", []).unwrap();
    let refused = outbox.store.commit_blocking(tx, &[due()]);
    assert!(matches!(refused, Err(CommitError::RolledBack(_))), "{refused:?}");
    assert!(conn.is_autocommit(), "the connection is free again");
    assert_eq!(outbox.store.counts().await.unwrap().new, 0);
}

#[tokio::test]
async fn a_refused_event_takes_the_commit_with_it() {
    let outbox = Outbox::new().await;
    let row = due();
    outbox.write(std::slice::from_ref(&row));
    let mut conn = outbox.store.connect().unwrap();
    let tx = outbox.store.begin_blocking(&mut conn).unwrap();
    tx.execute("create table orders (id)", []).unwrap();
    let refused = outbox.store.commit_blocking(tx, &[row]);
    assert!(matches!(refused, Err(CommitError::Refused(WriteError::DuplicateId))));
    assert!(conn.is_autocommit());
    assert!(!conn.table_exists(None, "orders").unwrap());
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
