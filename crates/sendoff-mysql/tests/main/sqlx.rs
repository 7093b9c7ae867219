//! Through sqlx.

use ::sqlx::mysql::{MySqlConnection, MySqlPool, MySqlPoolOptions};
use ::sqlx::{Connection, Executor};
use sendoff_core::{Event, EventId, Lane};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{Begin, Capture, Commit, CommitError, WriteError};
use sendoff_mysql::{Layout, MysqlOptions, MysqlStore, Period};
use sendoff_testkit::acceptance::{End, Face, OutboxHarness, async_trait};

use crate::commit::Shop;
use crate::place::{MARIADB, MYSQL, Place, claim, due, event};
use crate::thorny::{all_rows, check};

struct Pooled {
    store: MysqlStore,
    pool: MySqlPool,
    _place: Place,
}

impl Pooled {
    async fn open(server: &str) -> Self {
        let place = Place::on(server).await;
        Self { store: place.store().await, pool: pool(&place).await, _place: place }
    }
}

#[async_trait]
impl OutboxHarness for Pooled {
    type Store = MysqlStore;

    fn store(&self) -> MysqlStore {
        self.store.clone()
    }

    async fn write(
        &self,
        outbox: &Outbox<MysqlStore>,
        face: Face,
        events: &[Event],
        end: End,
    ) -> Vec<EventId> {
        match face {
            Face::Guard => {
                let mut tx = outbox.begin(&self.pool).await.unwrap();
                let ids = events.iter().map(|event| tx.emit(event).unwrap()).collect();
                match end {
                    End::RollBack => tx.rollback().await.unwrap(),
                    End::Commit | End::Forget => tx.commit().await.unwrap(),
                }
                ids
            }
            Face::Own => {
                let mut tx = self.pool.begin().await.unwrap();
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
    }
}

mod on_mariadb {
    use super::*;

    sendoff_testkit::acceptance_suite!(Pooled::open(MARIADB).await);
}

mod on_mysql {
    use super::*;

    sendoff_testkit::acceptance_suite!(Pooled::open(MYSQL).await);
}

async fn pool(place: &Place) -> MySqlPool {
    MySqlPoolOptions::new().max_connections(2).connect(&place.url).await.unwrap()
}

async fn connection(place: &Place) -> MySqlConnection {
    MySqlConnection::connect(&place.url).await.unwrap()
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_a_rolled_back_savepoint_is_not_delivered() {
    let shop = Shop::new().await;
    let pool = pool(&shop.place).await;
    let mut tx = shop.outbox.begin(&pool).await.unwrap();
    let outer = tx.emit(event()).unwrap();
    {
        let mut dropped = tx.savepoint().await.unwrap();
        dropped.emit(event()).unwrap();
        dropped.execute("insert into orders (id) values (1)").await.unwrap();
    }
    let mut undone = tx.savepoint().await.unwrap();
    undone.emit(event()).unwrap();
    undone.rollback().await.unwrap();
    let mut kept = tx.savepoint().await.unwrap();
    let inner = kept.emit(event()).unwrap();
    kept.execute("insert into orders (id) values (2)").await.unwrap();
    kept.release().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.place.number("select sum(id) from orders").await, 2);

    let mut tx = pool.begin().await.unwrap();
    let mut nested = tx.begin().await.unwrap();
    let staged = shop.outbox.write(&mut nested, event()).await.unwrap();
    nested.rollback().await.unwrap();
    tx.commit().await.unwrap();
    staged.release();

    let mut expected = [outer, inner];
    expected.sort_unstable();
    assert_eq!(shop.delivered().await, expected);
}

/// Holds W1: sqlx's own count sees neither a BEGIN nor a ROLLBACK sent as text.
#[tokio::test]
async fn a_connection_needs_a_transaction_whoever_began_it() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = connection(&place).await;
        let error = store.insert(&mut conn, &[due(event())]).await.unwrap_err();
        assert!(matches!(error, WriteError::NoTransaction), "{error:?}");

        conn.execute("begin").await.unwrap();
        store.insert(&mut conn, &[due(event())]).await.unwrap();
        conn.execute("commit").await.unwrap();
        assert_eq!(place.rows().await, 1);

        // What the last transaction said about itself is not believed of the next.
        let error = store.insert(&mut conn, &[due(event())]).await.unwrap_err();
        assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
        let mut tx = conn.begin().await.unwrap();
        tx.execute("rollback").await.unwrap();
        let error = store.insert(&mut tx, &[due(event())]).await.unwrap_err();
        assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
        assert_eq!(place.rows().await, 1);
    }
}

/// Holds W1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_by_hand_leaves_nothing_to_commit_itself() {
    let shop = Shop::new().await;
    let mut conn = connection(&shop.place).await;
    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    tx.emit(event()).unwrap();
    tx.execute("rollback").await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::NoTransaction)), "{error:?}");

    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    tx.execute("rollback").await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "without events too: {error:?}");
    assert_eq!(shop.place.rows().await, 0);

    // The connection is as good as new.
    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    let id = tx.emit(event()).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.delivered().await, [id]);
}

/// From within, sqlx's `commit` only releases a savepoint, and says `Ok` like any other.
#[tokio::test]
async fn a_savepoint_is_not_begun_as_a_transaction() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = connection(&place).await;
    let mut tx = conn.begin().await.unwrap();
    store.begin(&mut *tx).await.expect_err("a transaction is open");
}

#[tokio::test]
async fn a_duplicate_id_is_refused_with_its_whole_write() {
    for layout in [Layout::Flat, Layout::Partitioned(Period::Month)] {
        let place = Place::new().await;
        let store = place.store_with(MysqlOptions { layout, ..MysqlOptions::default() }).await;
        let pool = pool(&place).await;
        let row = due(event());
        let tx = store.begin(&pool).await.unwrap();
        store.commit(tx, std::slice::from_ref(&row)).await.unwrap();
        let tx = store.begin(&pool).await.unwrap();
        let error = store.commit(tx, &[due(event()), row]).await.unwrap_err();
        assert!(matches!(error, CommitError::Refused(WriteError::DuplicateId)), "{error:?}");
        assert_eq!(place.rows().await, 1, "all or none");
    }
}

/// Holds E6: the same values as through the store's own driver.
#[tokio::test]
async fn every_value_comes_back_as_it_was() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let (pool, rows) = (pool(&place).await, all_rows());
        let tx = store.begin(&pool).await.unwrap();
        let born = store.commit(tx, &rows).await.unwrap();
        check(&store, &rows, &born).await;
        // One by one: prepared once, and kept.
        let rows = all_rows();
        for row in &rows {
            let tx = store.begin(&pool).await.unwrap();
            let born = store.commit(tx, std::slice::from_ref(row)).await.unwrap();
            check(&store, std::slice::from_ref(row), &born).await;
        }
    }
}

/// Holds W5: several statements, one transaction, one order.
#[tokio::test]
async fn a_commit_of_more_than_one_statement_is_whole_and_in_order() {
    let place = Place::new().await;
    let store = place.store().await;
    let pool = pool(&place).await;
    let rows: Vec<_> = (0..1_500).map(|_| due(event())).collect();
    let tx = store.begin(&pool).await.unwrap();
    assert_eq!(store.commit(tx, &rows).await.unwrap().len(), rows.len());
    let mut claimed = claim(&store, "a").await;
    claimed.extend(claim(&store, "a").await);
    assert!(claimed.iter().map(|row| row.id).eq(rows.iter().map(|row| row.event.id())));
}

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, pool) = (shop.outbox.clone(), pool(&shop.place).await);
    let mut ids = tokio::spawn(async move {
        let mut tx = outbox.begin(&pool).await.unwrap();
        let mut savepoint = tx.savepoint().await.unwrap();
        let first = savepoint.emit(event()).unwrap();
        savepoint.release().await.unwrap();
        tx.commit().await.unwrap();
        let mut conn = pool.acquire().await.unwrap();
        let mut tx = outbox.begin(&mut *conn).await.unwrap();
        let second = outbox.write(&mut *tx, event()).await.unwrap();
        let id = second.id();
        tx.commit().await.unwrap();
        second.release();
        [first, id]
    })
    .await
    .unwrap();
    shop.inbox.has(2).await;
    assert_eq!(shop.inbox.lanes(), [Lane::Hot, Lane::Hot]);
    ids.sort_unstable();
    assert_eq!(shop.delivered().await, ids);
}
