//! Through sea-orm.

use ::sea_orm::{
    ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbErr, TransactionTrait,
};
use sendoff_core::{Event, EventId, Lane};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{Capture, WriteError};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::acceptance::{End, Face, OutboxHarness, async_trait};

use crate::commit::Shop;
use crate::place::{Place, claim, due, event};
use crate::thorny::{all_rows, check};

struct Connected {
    store: PostgresStore,
    db: DatabaseConnection,
    _place: Place,
}

impl Connected {
    async fn open() -> Self {
        let place = Place::new();
        Self { store: place.store().await, db: db(&place).await, _place: place }
    }
}

async fn db(place: &Place) -> DatabaseConnection {
    Database::connect(&place.url).await.unwrap()
}

#[async_trait]
impl OutboxHarness for Connected {
    type Store = PostgresStore;

    fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    async fn write(
        &self,
        outbox: &Outbox<PostgresStore>,
        _: Face,
        events: &[Event],
        end: End,
    ) -> Vec<EventId> {
        let mut tx = self.db.begin().await.unwrap();
        let staged = outbox.write_all(&mut tx, events).await.unwrap();
        if end.commits() {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        end.receipt(staged)
    }
}

mod suite {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: Connected::open().await);
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_of_a_commit_that_was_a_rollback_delivers_nothing() {
    let shop = Shop::new().await;
    let db = db(&shop.place).await;
    let mut tx = db.begin().await.unwrap();
    let staged = shop.outbox.write(&mut tx, event()).await.unwrap();
    assert!(tx.execute_unprepared("select 1 / 0").await.is_err());
    tx.commit().await.expect("sea-orm says that it committed");
    staged.release();
    assert_eq!(shop.place.rows().await, 0);
    assert!(shop.delivered().await.is_empty());
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_under_a_rolled_back_savepoint_is_not_delivered() {
    let shop = Shop::new().await;
    let db = db(&shop.place).await;
    let mut tx = db.begin().await.unwrap();
    let kept = shop.outbox.write(&mut tx, event()).await.unwrap();
    let mut nested = tx.begin().await.unwrap();
    let undone = shop.outbox.write(&mut nested, event()).await.unwrap();
    nested.rollback().await.unwrap();
    tx.commit().await.unwrap();
    let id = kept.id();
    undone.release();
    kept.release();
    assert_eq!(shop.delivered().await, [id]);
}

/// Holds W3, and why there is no guard: nested transactions share the connection and borrow nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_only_released_a_savepoint_delivers_nothing() {
    let shop = Shop::new().await;
    let db = db(&shop.place).await;
    let mut tx = db.begin().await.unwrap();
    let nested = tx.begin().await.unwrap();
    let staged = shop.outbox.write(&mut tx, event()).await.unwrap();
    tx.commit().await.expect("sea-orm says that it committed");
    staged.release();
    drop(nested);
    assert_eq!(shop.place.rows().await, 0);
    assert!(shop.delivered().await.is_empty());
}

/// Holds W1: the type proves that a transaction was begun, not that it is still open.
#[tokio::test]
async fn without_a_transaction_nothing_is_written() {
    let place = Place::new();
    let store = place.store().await;
    let db = db(&place).await;
    let mut tx = db.begin().await.unwrap();
    tx.execute_unprepared("rollback").await.unwrap();
    let error = store.insert(&mut tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");

    let mut tx = db.begin().await.unwrap();
    store.insert(&mut tx, &[due(event())]).await.unwrap();
    tx.execute_unprepared("rollback").await.unwrap();
    let error = store.insert(&mut tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "after a write too: {error:?}");
    assert_eq!(place.rows().await, 0);
}

#[tokio::test]
async fn only_our_own_unique_index_means_a_duplicate_id() {
    let place = Place::new();
    let store = place.store().await;
    let db = db(&place).await;
    let row = due(event());
    let mut tx = db.begin().await.unwrap();
    store.insert(&mut tx, std::slice::from_ref(&row)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin().await.unwrap();
    let error = store.insert(&mut tx, &[due(event()), row]).await.unwrap_err();
    assert!(matches!(error, WriteError::DuplicateId), "{error:?}");
    let error = store.insert(&mut tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::Driver(_)), "aborted by now: {error:?}");
    tx.rollback().await.unwrap();
    assert_eq!(place.rows().await, 1, "all or none");
}

/// Holds E6: the same values as through the store's own driver, whatever the session is set to.
#[tokio::test]
async fn every_value_comes_back_as_it_was() {
    let place = Place::new();
    let store = place.store().await;
    let (db, rows) = (db(&place).await, all_rows());
    let mut tx = db.begin().await.unwrap();
    let odd = "set local datestyle = 'German, DMY'; set local intervalstyle = 'sql_standard';
               set local timezone = 'Asia/Kathmandu'; set local bytea_output = 'escape'";
    tx.execute_unprepared(odd).await.unwrap();
    let born = store.insert(&mut tx, &rows).await.unwrap();
    tx.commit().await.unwrap();
    check(&store, &rows, &born).await;
}

/// Holds W5: one transaction, one order.
#[tokio::test]
async fn more_rows_than_a_claim_takes_are_whole_and_in_order() {
    let place = Place::new();
    let store = place.store().await;
    let db = db(&place).await;
    let rows: Vec<_> = (0..1_500).map(|_| due(event())).collect();
    let mut tx = db.begin().await.unwrap();
    assert_eq!(store.insert(&mut tx, &rows).await.unwrap().len(), rows.len());
    tx.commit().await.unwrap();
    let mut claimed = claim(&store, "a").await;
    claimed.extend(claim(&store, "a").await);
    assert!(claimed.iter().map(|row| row.id).eq(rows.iter().map(|row| row.event.id())));
}

/// What an application does in a spawned task must be `Send`, in a closure too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, db) = (shop.outbox.clone(), db(&shop.place).await);
    let mut ids = tokio::spawn(async move {
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
        let ids = [first.id(), second.id()];
        first.release();
        second.release();
        ids
    })
    .await
    .unwrap();
    shop.inbox.has(2).await;
    assert_eq!(shop.inbox.lanes(), [Lane::Hot, Lane::Hot]);
    ids.sort_unstable();
    assert_eq!(shop.delivered().await, ids);
}

/// Holds W5. Fault 21: a write that is dropped on its way leaves all of its events or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_many_that_is_dropped_leaves_all_or_none() {
    const MANY: i64 = 3_000;
    let place = Place::new();
    let outbox = Outbox::writer_only(place.store().await);
    let db = db(&place).await;
    for n in 0..20 {
        let mut tx = db.begin().await.unwrap();
        let wait = std::time::Duration::from_micros(2_500 * n);
        let events = (0..MANY).map(|_| event());
        let _ = tokio::time::timeout(wait, outbox.write_all(&mut tx, events)).await;
        let _ = tx.commit().await;
        let written = place.rows().await;
        assert_eq!(written % MANY, 0, "{written} rows after {wait:?}");
    }
}
