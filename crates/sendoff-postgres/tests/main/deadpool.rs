//! What is particular to a pool.

use deadpool_postgres::{Manager, Pool};
use sendoff_engine::capture::CommitError;
use sendoff_engine::store::InspectStore;
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::eventually;
use tokio_postgres::NoTls;

use crate::place::{Place, event};

fn pool(place: &Place) -> Pool {
    let manager = Manager::new(place.url.parse().unwrap(), NoTls);
    Pool::builder(manager).max_size(1).build().unwrap()
}

/// Fault 24: settlements and claims have connections of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_pool_does_not_stop_delivery() {
    let place = Place::new();
    let (store, inbox) = (place.store().await, Inbox::stepping());
    let outbox =
        Outbox::builder(store.clone()).on("order.placed", inbox.clone()).start().await.unwrap();
    let pool = pool(&place);
    let mut client = pool.get().await.unwrap();
    let mut tx = outbox.begin(&mut client).await.unwrap();
    let hot = tx.emit(event()).unwrap();
    tx.commit().await.unwrap();

    let kept = client.transaction().await.unwrap();
    kept.batch_execute("select pg_current_xact_id()").await.unwrap();
    assert_eq!(pool.status().available, 0, "the application has its only connection in use");
    place.run("select sendoff_emit('order.placed', '{}')").await;
    inbox.allow(2);
    let done = async || store.counts().await.unwrap().done == 2;
    eventually("both lanes to settle", done).await;
    assert!(store.find(hot).await.unwrap().unwrap().done_at.is_some());
    kept.rollback().await.unwrap();
    outbox.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooled_connection_is_clean_after_every_end() {
    let place = Place::new();
    let store = place.store().await;
    let outbox = Outbox::writer_with(store.clone(), &OutboxOptions::default());
    let pool = pool(&place);
    for _ in 0..3 {
        let mut client = pool.get().await.unwrap();
        let mut tx = outbox.begin(&mut client).await.unwrap();
        tx.emit(event()).unwrap();
        let mut savepoint = tx.savepoint().await.unwrap();
        savepoint.emit(event()).unwrap();
        savepoint.rollback().await.unwrap();
        tx.commit().await.unwrap();

        let mut tx = outbox.begin(&mut client).await.unwrap();
        tx.emit(event()).unwrap();
        assert!(tx.batch_execute("select 1 / 0").await.is_err());
        let error = tx.commit().await.unwrap_err();
        assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");

        let mut tx = outbox.begin(&mut client).await.unwrap();
        tx.emit(event()).unwrap();
        tx.rollback().await.unwrap();
    }
    assert_eq!(store.counts().await.unwrap().new, 3);
}
