//! What is particular to sea-orm.

use ::sea_orm::{Database, DatabaseConnection, DatabaseTransaction, DbErr, TransactionTrait};
use sendoff_testkit::capture::commit_beside_a_nested_transaction;

use crate::commit::Shop;
use crate::place::{Place, event};

async fn db(place: &Place) -> DatabaseConnection {
    Database::connect(&place.url).await.unwrap()
}

/// Holds W3, and why there is no guard: nested transactions share the connection and borrow nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_only_released_a_savepoint_delivers_nothing() {
    let shop = Shop::new().await;
    commit_beside_a_nested_transaction(&shop.place.url, &shop.outbox, event()).await;
    assert_eq!((shop.place.rows().await, shop.delivered().await), (0, Vec::new()));
}

/// What an application does in a spawned task must be `Send`, in a closure too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, db) = (shop.outbox.clone(), db(&shop.place).await);
    let task = tokio::spawn(async move {
        let mut tx = db.begin().await.unwrap();
        let first = outbox.write(&mut tx, event()).await.unwrap();
        tx.commit().await.unwrap();
        let within = outbox.clone();
        let second = db
            .transaction(|tx: &DatabaseTransaction| {
                Box::pin(async move {
                    let staged = within.write(&mut &*tx, event()).await.unwrap();
                    Ok::<_, DbErr>(staged)
                })
            })
            .await
            .unwrap();
        let ids = vec![first.id(), second.id()];
        first.release();
        second.release();
        ids
    });
    shop.inbox.has_hot(task.await.unwrap()).await;
}
