//! What a batch has locked whose process fell silent.

use std::time::Duration;

use sendoff_engine::store::{Lock, LockStore};
use sendoff_postgres::{Doorbell, PostgresOptions};
use sendoff_testkit::wait::within;

use crate::place::{Place, due, event, write};

/// With the limits that are there by default; also where PgBouncer gives every transaction another session.
#[tokio::test]
async fn what_a_silent_batch_has_locked_is_free_within_15_seconds() {
    let (direct, pooled) = (Place::new(), Place::pooled());
    let behind_a_pooler = PostgresOptions { doorbell: Doorbell::Off, ..pooled.options() };
    tokio::join!(
        what_it_locked_is_free(&direct, direct.options()),
        what_it_locked_is_free(&pooled, behind_a_pooler)
    );
}

async fn what_it_locked_is_free(place: &Place, options: PostgresOptions) {
    let store = place.store_with(options).await;
    write(&store, &mut place.client().await, &[due(event())]).await;
    let silent = store.lock(&Lock::new(1)).await.unwrap();
    assert!(silent.is_some());
    within(Duration::from_secs(15), "its row", async || {
        store.lock(&Lock::new(1)).await.unwrap().is_some()
    })
    .await;
}
