//! The store's own connections: lost, stuck, refused, or oddly configured.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use sendoff_core::report;
use sendoff_engine::capture::{Begin, Commit};
use sendoff_engine::store::{
    ClaimStore, InspectStore, Outcome, SettleStore, Settlement, StoreError,
};
use sendoff_mysql::{MysqlOptions, MysqlStore};
use sendoff_testkit::wait::eventually;

use crate::place::{MARIADB, MYSQL, Place, by, claim, connect, due, event, hold_of, write};

/// Fault 2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_sessions_were_ended_works_again() {
    let place = Place::new().await;
    let store = place.store().await;
    for _ in 0..3 {
        let mut conn = place.conn().await;
        write(&store, &mut conn, &[due(event())]).await;
        let held = hold_of(&claim(&store, "a").await[0]);
        store.counts().await.unwrap();
        let epoch = store.epoch();
        let ids = format!(
            "select id from information_schema.processlist where db = '{}' and id <> connection_id()",
            place.database
        );
        let ids: Vec<u64> = conn.query(ids).await.unwrap();
        assert!(ids.len() >= 2, "{ids:?}");
        for id in ids {
            let _ = conn.query_drop(format!("kill {id}")).await;
        }
        // Who finds his session ended opens another, and nobody hears of it.
        let settled = store.settle(&[Settlement { held, outcome: Outcome::Done }]).await;
        assert_eq!(settled.unwrap().applied, [held.id]);
        assert!(claim(&store, "a").await.is_empty());
        assert!(store.epoch() > epoch, "what waits in memory is to be confirmed again");
    }
}

/// Fault 20: a transaction that lost a deadlock is repeated, and nobody hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_lost_against_another_is_repeated() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        write(&store, &mut conn, &[due(event())]).await;
        // The server refuses each change twice. This kind of table counts on whatever is rolled back.
        conn.query_drop("create table lost (times int) engine = myisam").await.unwrap();
        conn.query_drop("insert into lost values (0)").await.unwrap();
        conn.query_drop(
            "create trigger lose before update on outbox_event for each row
             begin
                 update lost set times = times + 1;
                 if (select times from lost) % 3 <> 0 then
                     signal sqlstate '40001' set mysql_errno = 1213, message_text = 'a deadlock';
                 end if;
             end",
        )
        .await
        .unwrap();
        let claimed = claim(&store, "a").await;
        assert_eq!(claimed.len(), 1);
        let done = Settlement { held: hold_of(&claimed[0]), outcome: Outcome::Done };
        assert_eq!(store.settle(&[done]).await.unwrap().applied.len(), 1);
        assert_eq!(place.number("select times from lost").await, 6);
    }
}

/// Fault 21: whatever comes next must not wait behind a statement that nobody waits for any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_that_is_given_up_does_not_block_the_next() {
    let place = Place::new().await;
    let options = MysqlOptions { lock_timeout: Duration::from_secs(60), ..Default::default() };
    let store = place.store_with(options).await;
    let mut conn = place.conn().await;
    write(&store, &mut conn, &[due(event()), due(event())]).await;
    let held: Vec<_> = claim(&store, "a").await.iter().map(hold_of).collect();
    // A row is passed by; a gap between rows, in which the first is to go, cannot be.
    conn.query_drop("set session transaction isolation level repeatable read; begin")
        .await
        .unwrap();
    let later = "select 1 from outbox_event force index (outbox_event_due)
                  where due_at > utc_timestamp(6) + interval 1 hour for update";
    conn.query_drop(later).await.unwrap();
    let delay = Duration::from_secs(24 * 60 * 60);
    let retry = Outcome::Retry { delay, attempts: 1, error: String::new() };
    let first = [Settlement { held: held[0], outcome: retry }];
    let given_up = tokio::time::timeout(Duration::from_millis(300), store.settle(&first)).await;
    assert!(given_up.is_err(), "the gap is locked");
    let second = [Settlement { held: held[1], outcome: Outcome::Done }];
    let next = tokio::time::timeout(Duration::from_secs(10), store.settle(&second)).await;
    assert_eq!(next.expect("not stuck behind the first").unwrap().applied, [held[1].id]);
    conn.query_drop("rollback").await.unwrap();
    let written = async || store.find(held[0].id).await.unwrap().unwrap().attempts == 1;
    eventually("the server to carry out what it had begun", written).await;
}

/// What cannot be passed by is waited for, but not for long: somebody else's lock is no sign that the
/// database is unavailable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_the_whole_table_makes_the_store_busy() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let options = MysqlOptions { lock_timeout: Duration::from_secs(1), ..Default::default() };
        let store = place.store_with(options).await;
        let mut conn = place.conn().await;
        write(&store, &mut conn, &[due(event())]).await;
        let held = hold_of(&claim(&store, "a").await[0]);
        conn.query_drop("lock tables outbox_event write").await.unwrap();
        let settle = [Settlement { held, outcome: Outcome::Done }];
        let error = store.settle(&settle).await.unwrap_err();
        assert!(matches!(error, StoreError::Busy(_)), "{error:?}");
        let error = store.claim(&by("b")).await.unwrap_err();
        assert!(matches!(error, StoreError::Busy(_)), "{error:?}");
        conn.query_drop("unlock tables").await.unwrap();
        assert_eq!(store.settle(&settle).await.unwrap().applied, [held.id]);
    }
}

#[tokio::test]
async fn what_cannot_be_connected_to_says_why_and_keeps_the_password() {
    let error = MysqlStore::connect("mysql://app:s3cret@127.0.0.1:1/shop").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(!format!("{error:?} {}", report(&error)).contains("s3cret"));
    let options = MysqlOptions { connect_timeout: Duration::ZERO, ..Default::default() };
    let error = MysqlStore::connect_with("mysql://a@localhost/b", options).await.unwrap_err();
    assert!(error.to_string().contains("connect_timeout"), "{error}");

    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let host = place.url.rsplit_once('@').unwrap().1.to_owned();
        let error = MysqlStore::connect(&format!("mysql://root:s3cret@{host}")).await.unwrap_err();
        assert!(matches!(error, StoreError::Misconfigured { .. }), "{error:?}");
        assert!(error.to_string().contains("check user and password"), "{error}");
        assert!(!format!("{error:?} {}", report(&error)).contains("s3cret"), "{error:?}");
        let error = MysqlStore::connect(&format!("{}_not_there", place.url)).await.unwrap_err();
        assert!(error.to_string().contains("create the database"), "{error}");
    }
}

/// A missing table, column or privilege names what is missing and what to do.
#[tokio::test]
async fn what_is_missing_is_named_with_its_remedy() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = MysqlStore::connect(&place.url).await.unwrap();
        for error in [
            store.counts().await.unwrap_err(),
            store.claim(&by("a")).await.unwrap_err(),
            store.lateness().await.unwrap_err(),
        ] {
            assert!(error.to_string().contains("run `sendoff migrate`"), "{error}");
        }
        let mut conn = place.conn().await;
        let tx = store.begin(&mut conn).await.unwrap();
        let error = store.commit(tx, &[due(event())]).await.unwrap_err();
        assert!(report(&error).contains("run `sendoff migrate`"), "{}", report(&error));

        store.migrate().await.unwrap();
        place.run("alter table outbox_event drop column tenant_id").await;
        let error = store.claim(&by("a")).await.unwrap_err();
        assert!(error.to_string().contains("tenant_id"), "{error}");
        assert!(error.to_string().contains("run `sendoff migrate`"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_privilege_is_named_with_its_remedy() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        write(&place.store().await, &mut place.conn().await, &[due(event())]).await;
        let user = format!("u{}", &place.database[place.database.len() - 20..]);
        let mut conn = place.conn().await;
        conn.query_drop(format!("create user '{user}'@'%' identified by 's3cret'")).await.unwrap();
        let grant = format!("grant select on {}.* to '{user}'@'%'", place.database);
        conn.query_drop(grant).await.unwrap();
        let url = place.url.replace("root@", &format!("{user}:s3cret@"));
        let store = MysqlStore::connect(&url).await.unwrap();
        assert_eq!(store.counts().await.unwrap().pending(), 1);
        let mut own = connect(&url).await;
        let tx = store.begin(&mut own).await.unwrap();
        let error = store.commit(tx, &[due(event())]).await.unwrap_err();
        assert!(report(&error).contains("grant"), "{}", report(&error));
        let error = store.claim(&by("a")).await.unwrap_err();
        let said = error.to_string();
        assert!(said.contains("denied") && said.contains("grant SELECT, INSERT"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
        store.close().await;
        conn.query_drop(format!("drop user '{user}'@'%'")).await.unwrap();
    }
}
