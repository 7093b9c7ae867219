//! What a batch has locked whose process fell silent.

use std::time::Duration;

use sendoff_engine::store::{Lock, LockStore};
use sendoff_testkit::wait::within;

use crate::place::{Place, due, event, write};

/// With the limits that are there by default.
#[tokio::test]
async fn what_a_silent_batch_has_locked_is_free_within_15_seconds() {
    let place = Place::new();
    let store = place.store().await;
    write(&store, &mut place.client().await, &[due(event())]).await;
    let silent = store.lock(&Lock::new(1)).await.unwrap();
    assert!(silent.is_some());
    within(Duration::from_secs(15), "its row", async || {
        store.lock(&Lock::new(1)).await.unwrap().is_some()
    })
    .await;
}
