//! What is particular to sqlx.

use std::future::Future;
use std::task::Poll;

use ::sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use ::sqlx::{Connection, Postgres};
use sendoff_engine::capture::{Begin, Commit};
use sendoff_testkit::capture::sqlx_09::two_transactions;

use crate::commit::Shop;
use crate::place::{Place, due, event};
use crate::through::Orders;

async fn pool(place: &Place) -> PgPool {
    PgPoolOptions::new().max_connections(2).connect(&place.url).await.unwrap()
}

async fn connection(place: &Place) -> PgConnection {
    PgConnection::connect(&place.url).await.unwrap()
}

/// From within, sqlx's `commit` only releases a savepoint, and says `Ok` like any other.
#[tokio::test]
async fn a_savepoint_is_not_begun_as_a_transaction() {
    let place = Place::new();
    let store = place.store().await;
    let mut conn = connection(&place).await;
    let mut tx = conn.begin().await.unwrap();
    store.begin(&mut *tx).await.expect_err("a transaction is open");

    // A known limit: one that was leaked is still counted, and nobody can ask sqlx how deep it is.
    std::mem::forget(tx.begin().await.unwrap());
    store.commit(tx, &[due(event())]).await.expect("it was a savepoint that was released");
    assert_eq!(place.rows().await, 0);
}

/// Fault 21: sqlx rolls back the whole transaction for a savepoint that nobody waited for.
#[tokio::test]
async fn after_a_savepoint_that_nobody_waited_for_nothing_commits() {
    let shop = Shop::new().await;
    let pool = pool(&shop.place).await;
    // Now and then the server's answer is there before anybody can stop waiting for it.
    for _ in 0..1_000 {
        let mut tx = shop.outbox.begin(&pool).await.unwrap();
        tx.emit(event()).unwrap();
        let cut_off = {
            let mut savepoint = std::pin::pin!(tx.savepoint());
            let poll = std::future::poll_fn(|cx| Poll::Ready(savepoint.as_mut().poll(cx)));
            poll.await.is_pending()
        };
        if cut_off {
            assert!(tx.savepoint().await.is_err());
            tx.commit().await.unwrap_err();
            assert!(shop.delivered().await.is_empty());
            return;
        }
    }
    panic!("the answer always came at once");
}

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, pool) = (shop.outbox.clone(), pool(&shop.place).await);
    let task = tokio::spawn(two_transactions::<Orders, Postgres>(outbox, pool));
    shop.inbox.has_hot(task.await.unwrap()).await;
}
