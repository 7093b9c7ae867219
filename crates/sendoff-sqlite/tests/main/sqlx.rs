//! What only capture through sqlx has on SQLite.

use sendoff_engine::Outbox as Writer;
use sendoff_engine::capture::{Begin, Capture, Commit, Nest, Release};
use sendoff_engine::store::InspectStore;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use crate::outbox::{Outbox, due};

async fn pool(outbox: &Outbox) -> SqlitePool {
    SqlitePool::connect_with(SqliteConnectOptions::new().filename(outbox.store.path()))
        .await
        .unwrap()
}

async fn stored(outbox: &Outbox) -> u64 {
    outbox.store.counts().await.unwrap().new
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
