//! What is particular to sea-orm.

use sendoff_testkit::capture::commit_beside_a_nested_transaction;

use crate::commit::Shop;
use crate::place::event;

/// Holds W3, and why there is no guard: nested transactions share the connection and borrow nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_only_released_a_savepoint_delivers_nothing() {
    let shop = Shop::new().await;
    commit_beside_a_nested_transaction(&shop.place.url, &shop.outbox, event()).await;
    assert_eq!((shop.place.rows().await, shop.delivered().await), (0, Vec::new()));
}
