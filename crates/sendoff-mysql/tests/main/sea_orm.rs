//! What is particular to sea-orm.

use ::sea_orm::{Database, TransactionTrait};

use crate::commit::Shop;
use crate::place::event;

/// Holds W3, and why there is no guard: nested transactions share the connection and borrow nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_only_released_a_savepoint_delivers_nothing() {
    let shop = Shop::new().await;
    let db = Database::connect(&shop.place.url).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    let nested = tx.begin().await.unwrap();
    let staged = shop.outbox.write(&mut tx, event()).await.unwrap();
    tx.commit().await.expect("sea-orm says that it committed");
    staged.release();
    drop(nested);
    assert_eq!(shop.place.rows().await, 0);
    assert!(shop.delivered().await.is_empty());
}
