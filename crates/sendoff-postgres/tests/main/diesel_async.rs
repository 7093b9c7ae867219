//! What is particular to diesel-async.

use ::diesel::result::Error;
use ::diesel_async::{AsyncConnection, AsyncPgConnection};

use crate::commit::Shop;
use crate::place::event;

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let outbox = shop.outbox.clone();
    let mut conn = AsyncPgConnection::establish(&shop.place.url).await.unwrap();
    let task = tokio::spawn(async move {
        let staged = conn
            .transaction(async |conn| Ok::<_, Error>(outbox.write(conn, event()).await.unwrap()))
            .await
            .unwrap();
        let id = staged.id();
        staged.release();
        vec![id]
    });
    shop.inbox.has_hot(task.await.unwrap()).await;
}
