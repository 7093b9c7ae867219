//! Writes of many events that are dropped on their way, through drivers that cannot be interrupted
//! everywhere.

use std::time::Duration;

use ::sea_orm::{Database, TransactionTrait};
use ::sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
use ::sqlx::{AssertSqlSafe, Connection, Executor};
use sendoff_engine::Outbox;
use tokio::time::timeout;

use crate::place::{MARIADB, MYSQL, Place, event};

const MANY: i64 = 3_000;
/// Far above what a statement takes, and far below for ever.
const PLENTY: Duration = Duration::from_secs(30);

/// How long the writes go on: from before they are sent until they are whole.
fn moments() -> impl Iterator<Item = Duration> {
    [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 30_000].into_iter().map(Duration::from_millis)
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

/// Holds W5. Fault 21: a write that is dropped on its way leaves all of its events or none, and
/// nobody waits for its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_sqlx_a_write_of_many_that_is_dropped_leaves_all_or_none() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let outbox = Outbox::writer_only(place.store().await);
        let pool = MySqlPoolOptions::new().max_connections(2).connect(&place.url).await.unwrap();
        let mut expected = 0;
        for moment in moments() {
            let mut tx = timeout(PLENTY, pool.begin()).await.expect("a connection").unwrap();
            let events = (0..MANY).map(|_| event());
            let written = timeout(moment, outbox.write_all(&mut tx, events)).await;
            let committed = timeout(PLENTY, tx.commit()).await.expect("an answer");
            let rows = place.rows().await;
            match (written, committed) {
                (Ok(written), Ok(())) => expected += written.unwrap().ids().len() as i64,
                // Dropped: all or none, whatever the commit said.
                _ if rows == expected + MANY => expected = rows,
                _ => {}
            }
            assert_eq!(rows, expected, "after {moment:?}");
        }
        assert!(expected >= MANY, "the last one had time");
    }
}

/// The same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_sea_orm_a_write_of_many_that_is_dropped_leaves_all_or_none() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let outbox = Outbox::writer_only(place.store().await);
        let db = Database::connect(&place.url).await.unwrap();
        let mut expected = 0;
        for moment in moments() {
            let mut tx = timeout(PLENTY, db.begin()).await.expect("a connection").unwrap();
            let events = (0..MANY).map(|_| event());
            let written = timeout(moment, outbox.write_all(&mut tx, events)).await;
            let committed = timeout(PLENTY, tx.commit()).await.expect("an answer");
            let rows = place.rows().await;
            match (written, committed) {
                (Ok(written), Ok(())) => expected += written.unwrap().ids().len() as i64,
                _ if rows == expected + MANY => expected = rows,
                _ => {}
            }
            assert_eq!(rows, expected, "after {moment:?}");
        }
        assert!(expected >= MANY, "the last one had time");
    }
}
