use sendoff_engine::Outbox as Writer;
use sendoff_engine::capture::{Begin, Capture, Commit, CommitError, Nest, Release, WriteError};
use sendoff_engine::store::InspectStore;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use sqlx::{Acquire, Connection, Executor};

use crate::outbox::{Outbox, born_held, due};

async fn pool(outbox: &Outbox) -> SqlitePool {
    SqlitePool::connect_with(SqliteConnectOptions::new().filename(outbox.store.path()))
        .await
        .unwrap()
}

async fn stored(outbox: &Outbox) -> u64 {
    outbox.store.counts().await.unwrap().new
}

/// Holds W2 and W5.
#[tokio::test]
async fn a_commit_stores_the_events_as_rusqlite_would() {
    let outbox = Outbox::new().await;
    let pool = pool(&outbox).await;
    let rows: Vec<_> = (0..150).map(|n| if n % 2 == 0 { due() } else { born_held("me") }).collect();
    let tx = outbox.store.begin(&pool).await.unwrap();
    let born = outbox.store.commit(tx, &rows).await.unwrap();
    for (row, born) in rows.iter().zip(born) {
        let stored = outbox.row(row.event.id()).await;
        assert_eq!(stored.event, row.event);
        assert_eq!(stored.created_at, born.created_at);
        assert_eq!(stored.locked_by.is_some(), born.token.is_some());
        if let Some(token) = born.token {
            assert_eq!(stored.due_at, token.due_at());
        }
    }
}

#[tokio::test]
async fn a_transaction_rolled_back_or_dropped_leaves_nothing() {
    let outbox = Outbox::new().await;
    let pool = pool(&outbox).await;
    let mut tx = outbox.store.begin(&pool).await.unwrap();
    outbox.store.insert(&mut tx, &[due()]).await.unwrap();
    assert_eq!(stored(&outbox).await, 0, "not before the commit");
    outbox.store.rollback(tx).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    outbox.store.insert(&mut tx, &[due()]).await.unwrap();
    drop(tx);
    pool.close().await;
    assert_eq!(stored(&outbox).await, 0);
}

#[tokio::test]
async fn savepoints_keep_and_undo_what_was_written_under_them() {
    let outbox = Outbox::new().await;
    let pool = pool(&outbox).await;
    let store = &outbox.store;
    let rows = [due(), due(), due(), due()];
    let one = |at: usize| std::slice::from_ref(&rows[at]);

    let mut tx = store.begin(&pool).await.unwrap();
    let mut kept = store.savepoint(&mut tx).await.unwrap();
    store.insert(&mut kept, one(0)).await.unwrap();
    let mut undone = store.savepoint(&mut kept).await.unwrap();
    store.insert(&mut undone, one(1)).await.unwrap();
    store.roll_back_to(undone).await.unwrap();
    store.release(kept).await.unwrap();
    let mut dropped = store.savepoint(&mut tx).await.unwrap();
    store.insert(&mut dropped, one(2)).await.unwrap();
    drop(dropped);
    store.commit(tx, one(3)).await.unwrap();

    let mut there = Vec::new();
    for row in &rows {
        there.push(store.find(row.event.id()).await.unwrap().is_some());
    }
    assert_eq!(there, [true, false, false, true]);
}

/// Holds W1.
#[tokio::test]
async fn a_transaction_ended_by_hand_is_none() {
    let outbox = Outbox::new().await;
    let pool = pool(&outbox).await;
    let mut tx = outbox.store.begin(&pool).await.unwrap();
    tx.execute("rollback").await.unwrap();
    let refused = outbox.store.insert(&mut tx, &[due()]).await;
    assert!(matches!(refused, Err(WriteError::NoTransaction)), "{refused:?}");
    assert!(outbox.store.savepoint(&mut tx).await.is_err());
    let refused = outbox.store.commit(tx, &[due()]).await;
    assert!(matches!(refused, Err(CommitError::Refused(WriteError::NoTransaction))));

    let mut tx = outbox.store.begin(&pool).await.unwrap();
    tx.execute("rollback").await.unwrap();
    let refused = outbox.store.commit(tx, &[]).await;
    assert!(matches!(refused, Err(CommitError::RolledBack(_))), "{refused:?}");
    assert_eq!(stored(&outbox).await, 0);
}

#[tokio::test]
async fn a_transaction_that_is_open_already_is_left_alone() {
    let outbox = Outbox::new().await;
    let pool = pool(&outbox).await;
    let mut conn = pool.acquire().await.unwrap();
    let mut outer = conn.begin().await.unwrap();
    outbox.store.insert(&mut outer, &[due()]).await.unwrap();
    assert!(outbox.store.begin(&mut *outer).await.is_err());
    outer.commit().await.unwrap();
    assert_eq!(stored(&outbox).await, 1);

    let tx = outbox.store.begin(&mut *conn).await.unwrap();
    outbox.store.commit(tx, &[due()]).await.unwrap();
    assert_eq!(stored(&outbox).await, 2);
}

/// Holds W5: all or none.
#[tokio::test]
async fn a_duplicate_writes_nothing_and_leaves_the_transaction_open() {
    let outbox = Outbox::new().await;
    let pool = pool(&outbox).await;
    let first = due();
    outbox.write(std::slice::from_ref(&first));
    for others in [1, 100] {
        let mut rows: Vec<_> = (0..others).map(|_| due()).collect();
        rows.push(first.clone());
        let mut tx = outbox.store.begin(&pool).await.unwrap();
        let refused = outbox.store.insert(&mut tx, &rows).await;
        assert!(matches!(refused, Err(WriteError::DuplicateId)), "{refused:?}");
        assert!(tx.is_in_transaction());
        outbox.store.commit(tx, &[]).await.unwrap();
        assert_eq!(stored(&outbox).await, 1);
    }
}

#[tokio::test]
async fn a_refused_commit_is_rolled_back_and_says_so() {
    let outbox = Outbox::new().await;
    let pool = pool(&outbox).await;
    pool.execute(
        "create table parent (id integer primary key);
         create table child (parent integer references parent deferrable initially deferred);",
    )
    .await
    .unwrap();
    let mut tx = outbox.store.begin(&pool).await.unwrap();
    tx.execute("insert into child values (1)").await.unwrap();
    let refused = outbox.store.commit(tx, &[due()]).await;
    assert!(matches!(refused, Err(CommitError::RolledBack(_))), "{refused:?}");
    assert_eq!(stored(&outbox).await, 0);
    // The connection is free again, and so is the lock.
    let tx = outbox.store.begin(&pool).await.unwrap();
    outbox.store.commit(tx, &[due()]).await.unwrap();
    assert_eq!(stored(&outbox).await, 1);
}

#[tokio::test]
async fn its_futures_can_be_spawned() {
    let outbox = Outbox::new().await;
    let (pool, store) = (pool(&outbox).await, outbox.store.clone());
    let task = tokio::spawn(async move {
        let mut tx = store.begin(&pool).await.unwrap();
        store.insert(&mut tx, &[due()]).await.unwrap();
        let mut nested = store.savepoint(&mut tx).await.unwrap();
        store.insert(&mut nested, &[due()]).await.unwrap();
        store.release(nested).await.unwrap();
        store.commit(tx, &[due()]).await.unwrap();
    });
    task.await.unwrap();
    assert_eq!(stored(&outbox).await, 3);
}

#[tokio::test]
async fn a_guard_with_a_savepoint_can_be_spawned() {
    let outbox = Outbox::new().await;
    let (pool, writer) = (pool(&outbox).await, Writer::writer_only(outbox.store.clone()));
    let task = tokio::spawn(async move {
        let mut tx = writer.begin(&pool).await.unwrap();
        let mut savepoint = tx.savepoint().await.unwrap();
        savepoint.emit(("order.placed", "{}")).unwrap();
        savepoint.release().await.unwrap();
        tx.commit().await.unwrap();
    });
    task.await.unwrap();
    assert_eq!(stored(&outbox).await, 1);
}

/// Holds W5. Fault 21: a write that is dropped on its way leaves all of its events or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_many_that_is_dropped_leaves_all_or_none() {
    const MANY: u64 = 500;
    let outbox = Outbox::new().await;
    let (pool, writer) = (pool(&outbox).await, Writer::writer_only(outbox.store.clone()));
    let mut before = 0;
    for n in 0..60_u32 {
        let mut tx = pool.begin().await.unwrap();
        let events = (0..MANY).map(|_| sendoff_core::Event::json("t", &1).unwrap());
        let wait = std::time::Duration::from_micros(300) * n;
        let _ = tokio::time::timeout(wait, writer.write_all(&mut tx, events)).await;
        tx.commit().await.unwrap();
        let written = stored(&outbox).await - before;
        before += written;
        assert!(written == 0 || written == MANY, "{written} of {MANY} events after {wait:?}");
    }
}
