//! The store's own connections: lost, stuck, refused, or oddly configured.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use sendoff_core::report;
use sendoff_engine::capture::{Begin, Commit};
use sendoff_engine::store::{
    ClaimStore, InspectStore, Outcome, SettleStore, Settlement, StoreError,
};
use sendoff_mysql::{MysqlOptions, MysqlStore};

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
    }
}

/// Fault 21: whatever comes next must not wait behind a statement that nobody waits for any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_that_is_given_up_does_not_block_the_next() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    write(&store, &mut conn, &[due(event()), due(event())]).await;
    let held: Vec<_> = claim(&store, "a").await.iter().map(hold_of).collect();
    conn.query_drop("begin").await.unwrap();
    let id = held[0].id.to_string().replace('-', "");
    let lock = format!("select 1 from outbox_event where event_id = unhex('{id}') for update");
    conn.query_drop(lock).await.unwrap();
    let settle = |held| [Settlement { held, outcome: Outcome::Done }];
    let first = settle(held[0]);
    let given_up = tokio::time::timeout(Duration::from_millis(100), store.settle(&first)).await;
    assert!(given_up.is_err(), "the row is locked");
    let second = settle(held[1]);
    let next = tokio::time::timeout(Duration::from_secs(5), store.settle(&second)).await;
    assert_eq!(next.expect("not stuck behind the first").unwrap().applied, [held[1].id]);
    conn.query_drop("rollback").await.unwrap();
    assert_eq!(
        store.settle(&first).await.unwrap().applied,
        [held[0].id],
        "what was given up was undone"
    );
}

/// Somebody's lock is waited for, but not for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_never_let_go_makes_the_store_unavailable() {
    let place = Place::new().await;
    let options = MysqlOptions { lock_timeout: Duration::from_secs(1), ..Default::default() };
    let store = place.store_with(options).await;
    let mut conn = place.conn().await;
    write(&store, &mut conn, &[due(event())]).await;
    let held = hold_of(&claim(&store, "a").await[0]);
    conn.query_drop("begin; select * from outbox_event for update").await.unwrap();
    let error = store.settle(&[Settlement { held, outcome: Outcome::Done }]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(claim(&store, "b").await.is_empty(), "a claim does not even wait");
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
            store.oldest_lag().await.unwrap_err(),
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
