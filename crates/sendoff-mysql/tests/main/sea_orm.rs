//! Through sea-orm.

use ::sea_orm::{ConnectionTrait, Database, DatabaseConnection, TransactionTrait};
use sendoff_core::{Event, EventId};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{Capture, WriteError};
use sendoff_mysql::MysqlStore;
use sendoff_testkit::acceptance::{End, Face, OutboxHarness, async_trait};

use crate::commit::Shop;
use crate::place::{MARIADB, MYSQL, Place, claim, due, event};
use crate::thorny::{all_rows, check};

struct Connected {
    store: MysqlStore,
    db: DatabaseConnection,
    _place: Place,
}

impl Connected {
    async fn open(server: &str) -> Self {
        let place = Place::on(server).await;
        Self { store: place.store().await, db: db(&place).await, _place: place }
    }
}

async fn db(place: &Place) -> DatabaseConnection {
    Database::connect(&place.url).await.unwrap()
}

#[async_trait]
impl OutboxHarness for Connected {
    type Store = MysqlStore;

    fn store(&self) -> MysqlStore {
        self.store.clone()
    }

    async fn write(
        &self,
        outbox: &Outbox<MysqlStore>,
        _: Face,
        events: &[Event],
        end: End,
    ) -> Vec<EventId> {
        let mut tx = self.db.begin().await.unwrap();
        let staged = outbox.write_all(&mut tx, events).await.unwrap();
        let ids = staged.ids().to_vec();
        match end {
            End::RollBack => tx.rollback().await.unwrap(),
            End::Commit | End::Forget => tx.commit().await.unwrap(),
        }
        if end != End::Forget {
            staged.release();
        }
        ids
    }
}

mod on_mariadb {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: Connected::open(MARIADB).await);
}

mod on_mysql {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: Connected::open(MYSQL).await);
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
    let place = Place::new().await;
    let store = place.store().await;
    let db = db(&place).await;
    let mut tx = db.begin().await.unwrap();
    tx.execute_unprepared("rollback").await.unwrap();
    let error = store.insert(&mut tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    assert_eq!(place.rows().await, 0);
}

/// Holds E6 and W5.
#[tokio::test]
async fn every_value_comes_back_as_it_was_and_in_order() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let (db, rows) = (db(&place).await, all_rows());
        let mut tx = db.begin().await.unwrap();
        let born = store.insert(&mut tx, &rows).await.unwrap();
        tx.commit().await.unwrap();
        check(&store, &rows, &born).await;
    }
    let place = Place::new().await;
    let (store, db) = (place.store().await, db(&place).await);
    let rows: Vec<_> = (0..1_500).map(|_| due(event())).collect();
    let tx = db.begin().await.unwrap();
    store.insert(&mut &tx, &rows).await.unwrap();
    tx.commit().await.unwrap();
    let mut claimed = claim(&store, "a").await;
    claimed.extend(claim(&store, "a").await);
    assert!(claimed.iter().map(|row| row.id).eq(rows.iter().map(|row| row.event.id())));
}

#[tokio::test]
async fn a_duplicate_id_is_refused_with_its_whole_write() {
    let place = Place::new().await;
    let (store, db) = (place.store().await, db(&place).await);
    let row = due(event());
    let mut tx = db.begin().await.unwrap();
    store.insert(&mut tx, std::slice::from_ref(&row)).await.unwrap();
    let error = store.insert(&mut tx, &[due(event()), row]).await.unwrap_err();
    assert!(matches!(error, WriteError::DuplicateId), "{error:?}");
    tx.commit().await.unwrap();
    assert_eq!(place.rows().await, 1, "all or none");
}
