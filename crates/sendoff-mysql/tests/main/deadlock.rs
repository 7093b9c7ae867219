//! A deadlock rolls back the whole transaction, and the session goes on as if nothing had been.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, TxOpts};
use sendoff_engine::capture::{CommitError, WriteError};

use crate::commit::Shop;
use crate::place::{MARIADB, MYSQL, event};

/// The number of an error by deadlock.
const DEADLOCK: u16 = 1213;

/// Rows for a deadlock, and one who will win it: who changed more is spared.
pub(crate) async fn winner(shop: &Shop) -> Conn {
    shop.place.run("insert into orders (id) values (1), (2), (3), (4), (5), (6), (7), (8)").await;
    let mut conn = shop.place.conn().await;
    conn.query_drop("begin").await.unwrap();
    conn.query_drop("update orders set total = total + 1 where id >= 2").await.unwrap();
    conn
}

/// Lets the winner ask for order 1, which the loser has changed, while the loser asks for order 2.
/// Whoever asks last finds the deadlock; who has changed less loses it.
pub(crate) fn meet(mut winner: Conn) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        winner.query_drop("update orders set total = total + 1 where id = 1").await.unwrap();
        winner.query_drop("commit").await.unwrap();
    })
}

async fn lose(conn: &mut impl Queryable) {
    match conn.query_drop("update orders set total = 100 where id = 2").await {
        Err(Error::Server(refusal)) => assert_eq!(refusal.code, DEADLOCK),
        other => panic!("no deadlock: {other:?}"),
    }
}

const LOSE_FIRST: &str = "update orders set total = 100 where id = 1";

fn assert_undone(error: &CommitError) {
    let undone = matches!(
        error,
        CommitError::RolledBack(_) | CommitError::Refused(WriteError::NoTransaction)
    );
    assert!(undone, "{error:?}");
}

/// Holds W3: an application that swallows the deadlock, goes on and commits.
async fn a_guard_notices(server: &str, settings: &str, goes_on: bool) {
    let shop = Shop::on(server).await;
    let winner = winner(&shop).await;
    let mut conn = shop.place.conn().await;
    conn.query_drop(settings).await.unwrap();
    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    tx.query_drop(LOSE_FIRST).await.unwrap();
    tx.emit(event()).unwrap();
    let other = meet(winner);
    lose(&mut **tx).await;
    other.await.unwrap();
    if goes_on {
        tx.query_drop("insert into orders (id) values (9)").await.unwrap();
    }
    let error = tx.commit().await.unwrap_err();
    assert_undone(&error);
    assert_eq!(shop.place.rows().await, 0);
    assert_eq!(shop.place.number("select sum(total) from orders where id < 9").await, 8);
    assert!(shop.delivered().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_transaction_lost_a_deadlock_is_not_committed_alone() {
    for server in [MARIADB, MYSQL] {
        a_guard_notices(server, "set autocommit = 1", true).await;
        a_guard_notices(server, "set autocommit = 1", false).await;
    }
}

/// With autocommit off the next statement opens another transaction, unasked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_came_after_a_deadlock_is_not_taken_for_the_one_before() {
    for server in [MARIADB, MYSQL] {
        a_guard_notices(server, "set autocommit = 0", true).await;
        a_guard_notices(server, "set autocommit = 0", false).await;
    }
}

/// Holds W1 and W3, for a transaction that the application ends itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_after_a_deadlock_is_refused_and_one_before_it_is_not_delivered() {
    for server in [MARIADB, MYSQL] {
        let shop = Shop::on(server).await;
        let winner = winner(&shop).await;
        let mut conn = shop.place.conn().await;
        let mut tx = conn.start_transaction(TxOpts::new()).await.unwrap();
        tx.query_drop(LOSE_FIRST).await.unwrap();
        let before = shop.outbox.write(&mut tx, event()).await.unwrap();
        let other = meet(winner);
        lose(&mut tx).await;
        other.await.unwrap();
        let error = shop.outbox.write(&mut tx, event()).await.unwrap_err();
        assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
        tx.commit().await.expect("the driver says that it committed");
        before.release();
        assert_eq!(shop.place.rows().await, 0);
        assert!(shop.delivered().await.is_empty());
    }
}

#[cfg(feature = "sqlx")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_sqlx_as_well() {
    use ::sqlx::{Connection, Executor};

    for server in [MARIADB, MYSQL] {
        for settings in ["set autocommit = 1", "set autocommit = 0"] {
            let shop = Shop::on(server).await;
            let winner = winner(&shop).await;
            let mut conn = ::sqlx::MySqlConnection::connect(&shop.place.url).await.unwrap();
            conn.execute(settings).await.unwrap();
            let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
            tx.execute(LOSE_FIRST).await.unwrap();
            tx.emit(event()).unwrap();
            let other = meet(winner);
            assert!(tx.execute("update orders set total = 100 where id = 2").await.is_err());
            other.await.unwrap();
            tx.execute("insert into orders (id) values (9)").await.unwrap();
            let error = tx.commit().await.unwrap_err();
            assert_undone(&error);
            assert_eq!(shop.place.rows().await, 0);
            assert!(shop.delivered().await.is_empty());
        }
    }
}
