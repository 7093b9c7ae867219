//! What is particular to sqlx.

use std::time::Duration;

use ::sqlx::mysql::{MySqlConnection, MySqlPool, MySqlPoolOptions};
use ::sqlx::{AssertSqlSafe, Connection, Executor, MySql};
use sendoff_engine::capture::{Begin, Commit, CommitError, WriteError};
use sendoff_mysql::{Layout, MysqlOptions, Period};
use sendoff_testkit::capture::sqlx_09::two_transactions;
use tokio::time::timeout;

use crate::commit::Shop;
use crate::place::{Place, due, event};
use crate::through::Orders;

async fn pool(place: &Place) -> MySqlPool {
    MySqlPoolOptions::new().max_connections(2).connect(&place.url).await.unwrap()
}

async fn connection(place: &Place) -> MySqlConnection {
    MySqlConnection::connect(&place.url).await.unwrap()
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

/// Also where no key can span all partitions.
#[tokio::test]
async fn in_partitions_a_duplicate_id_is_refused_with_its_whole_write() {
    let place = Place::new().await;
    let layout = Layout::Partitioned(Period::Month);
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

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, pool) = (shop.outbox.clone(), pool(&shop.place).await);
    let task = tokio::spawn(two_transactions::<Orders, MySql>(outbox, pool));
    shop.inbox.has_hot(task.await.unwrap()).await;
}

/// What `Unfinished` is for. Should this fail one day, sqlx has learned it, and nothing need be ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlx_alone_waits_for_ever_after_it_was_dropped_while_it_prepared() {
    let place = Place::new().await;
    let marks = format!("select 0 in ({}0)", "?,".repeat(10_000));
    for micros in (0..200).map(|n| 250 * n) {
        let mut conn = MySqlConnection::connect(&place.url).await.unwrap();
        let mut query = ::sqlx::query(AssertSqlSafe(marks.clone())).persistent(false);
        for _ in 0..10_000 {
            query = query.bind(1);
        }
        let _ = timeout(Duration::from_micros(micros), query.execute(&mut conn)).await;
        if timeout(Duration::from_secs(3), conn.execute("do 0")).await.is_err() {
            return;
        }
    }
    panic!("it went on after each of them");
}
