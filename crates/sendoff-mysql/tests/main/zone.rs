//! Time is the database's, in UTC, whatever anybody's session thinks.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use sendoff_core::Timestamp;
use sendoff_engine::store::{ClaimStore, InspectStore, Outcome};
use sendoff_mysql::MysqlStore;
use sendoff_testkit::wait::eventually;

use crate::place::{
    MARIADB, MYSQL, Place, by, claim, connect, due, event, hold_of, settle_one, write,
};
use crate::server::Server;

/// The server's clock.
async fn now(url: &str) -> Timestamp {
    let now = "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))";
    let micros: i64 = connect(url).await.query_first(now).await.unwrap().unwrap();
    Timestamp::from_micros(micros)
}

/// A retry becomes due at its deadline, to the microsecond of the server's clock.
async fn a_retry_is_due_at_its_deadline(url: &str, store: &MysqlStore) {
    const DELAY: Duration = Duration::from_millis(300);
    let mut conn = connect(url).await;
    conn.query_drop("set time_zone = '+09:00'").await.unwrap();
    let host: Timestamp = std::time::SystemTime::now().into();
    let row = due(event());
    let born = write(store, &mut conn, std::slice::from_ref(&row)).await;
    assert!(born[0].created_at.since(host) < Duration::from_secs(60), "hours apart");
    assert!(host.since(born[0].created_at) < Duration::from_secs(60), "hours apart");

    let held = hold_of(&claim(store, "a").await[0]);
    let before = now(url).await;
    let retry = Outcome::Retry { delay: DELAY, attempts: 1, error: "later".into() };
    assert!(settle_one(store, held, retry).await);
    let after = now(url).await;
    let due_at = store.find(row.event.id()).await.unwrap().unwrap().due_at;
    assert!(before.saturating_add(DELAY) <= due_at && due_at <= after.saturating_add(DELAY));

    // Every look before the deadline finds nothing, the first one after it finds the row.
    let mut last_empty = before;
    let mut found = None;
    eventually("the retry to be due", async || {
        let looked = now(url).await;
        match store.claim(&by("a")).await.unwrap().rows.pop() {
            Some(row) => found = Some(row),
            None => last_empty = looked,
        }
        found.is_some()
    })
    .await;
    let found = found.unwrap();
    assert!(last_empty < due_at, "it was due, and not found");
    assert!(found.claimed_at >= due_at, "it was found, and not due");
    assert_eq!(found.attempts, 1);
}

/// Holds L5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_due_exactly_at_its_deadline_in_a_foreign_time_zone() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        a_retry_is_due_at_its_deadline(&place.url, &place.store().await).await;
    }
}

/// Holds L5: the same where the whole server lives elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_in_a_foreign_time_zone_is_no_different() {
    let Some(server) = Server::start(&["--default-time-zone=+09:00"]) else { return };
    let zone: Option<String> =
        connect(&server.url()).await.query_first("select @@global.time_zone").await.unwrap();
    assert_eq!(zone.as_deref(), Some("+09:00"));
    let store = MysqlStore::connect(&server.url()).await.unwrap();
    store.migrate().await.unwrap();
    a_retry_is_due_at_its_deadline(&server.url(), &store).await;
    store.close().await;
}
