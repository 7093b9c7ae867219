//! Through sqlx.

use std::future::Future;
use std::task::Poll;

use ::sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use ::sqlx::{AssertSqlSafe, Connection, Executor};
use sendoff_core::{Event, EventId, Lane};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{Begin, Capture, Commit, CommitError, WriteError};
use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore};
use sendoff_testkit::acceptance::{End, Face, OutboxHarness, async_trait};

use crate::commit::Shop;
use crate::place::{Place, SERVER, claim, due, event};
use crate::thorny::{all_rows, check};

struct Pooled {
    store: PostgresStore,
    pool: PgPool,
    _place: Place,
}

impl Pooled {
    async fn open(doorbell: Doorbell) -> Self {
        let place = Place::on(SERVER);
        let store = place.store_with(PostgresOptions { doorbell, ..place.options() }).await;
        Self { store, pool: pool(&place).await, _place: place }
    }
}

#[async_trait]
impl OutboxHarness for Pooled {
    type Store = PostgresStore;

    fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    async fn write(
        &self,
        outbox: &Outbox<PostgresStore>,
        face: Face,
        events: &[Event],
        end: End,
    ) -> Vec<EventId> {
        match face {
            Face::Guard => end.guard(outbox.begin(&self.pool).await.unwrap(), events).await,
            Face::Own => {
                let mut tx = self.pool.begin().await.unwrap();
                let staged = outbox.write_all(&mut tx, events).await.unwrap();
                if end.commits() {
                    tx.commit().await.unwrap();
                } else {
                    tx.rollback().await.unwrap();
                }
                end.receipt(staged)
            }
        }
    }
}

mod suite {
    use super::*;

    sendoff_testkit::acceptance_suite!(Pooled::open(Doorbell::On).await);
}

mod without_session_state {
    use super::*;

    sendoff_testkit::acceptance_suite!(Pooled::open(Doorbell::Off).await);
}

async fn pool(place: &Place) -> PgPool {
    PgPoolOptions::new().max_connections(2).connect(&place.url).await.unwrap()
}

async fn connection(place: &Place) -> PgConnection {
    PgConnection::connect(&place.url).await.unwrap()
}

/// Holds W3: sqlx calls a COMMIT that the server answered with ROLLBACK a success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swallowed_error_makes_the_commit_fail_and_nothing_is_delivered() {
    let shop = Shop::new().await;
    let pool = pool(&shop.place).await;
    let mut tx = shop.outbox.begin(&pool).await.unwrap();
    assert!(tx.execute("select 1 / 0").await.is_err());
    tx.emit(event()).unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");

    let mut tx = shop.outbox.begin(&pool).await.unwrap();
    assert!(tx.execute("select 1 / 0").await.is_err());
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "without events too: {error:?}");

    let mut tx = pool.begin().await.unwrap();
    let staged = shop.outbox.write(&mut tx, event()).await.unwrap();
    assert!(tx.execute("select 1 / 0").await.is_err());
    tx.commit().await.expect("sqlx says that it committed");
    staged.release();
    assert_eq!(shop.place.rows().await, 0);
    assert!(shop.delivered().await.is_empty());
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_a_rolled_back_savepoint_is_not_delivered() {
    let shop = Shop::new().await;
    let table = shop.table();
    let pool = pool(&shop.place).await;
    let mut tx = shop.outbox.begin(&pool).await.unwrap();
    let outer = tx.emit(event()).unwrap();
    {
        let mut dropped = tx.savepoint().await.unwrap();
        dropped.emit(event()).unwrap();
        let insert = AssertSqlSafe(format!("insert into {table} values (1)"));
        dropped.execute(insert).await.unwrap();
    }
    let mut undone = tx.savepoint().await.unwrap();
    undone.emit(event()).unwrap();
    // An error under a savepoint is undone with it.
    assert!(undone.execute("select 1 / 0").await.is_err());
    undone.rollback().await.unwrap();
    let mut kept = tx.savepoint().await.unwrap();
    let inner = kept.emit(event()).unwrap();
    kept.execute(AssertSqlSafe(format!("insert into {table} values (2)"))).await.unwrap();
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
    let place = Place::new();
    let store = place.store().await;
    let mut conn = connection(&place).await;
    let error = store.insert(&mut conn, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");

    conn.execute("begin").await.unwrap();
    assert!(!conn.is_in_transaction(), "sqlx does not know");
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
    let place = Place::new();
    let store = place.store().await;
    let mut conn = connection(&place).await;
    let mut tx = conn.begin().await.unwrap();
    store.begin(&mut *tx).await.expect_err("a transaction is open");

    // A known limit: one that was leaked is still counted, and nobody can ask sqlx how deep it is.
    std::mem::forget(tx.begin().await.unwrap());
    store.commit(tx, &[due(event())]).await.expect("it was a savepoint that was released");
    assert_eq!(place.rows().await, 0);
}

/// Fault 21: sqlx rolls back the whole transaction for a savepoint that nobody waited for.
#[tokio::test]
async fn after_a_savepoint_that_nobody_waited_for_nothing_commits() {
    let shop = Shop::new().await;
    let pool = pool(&shop.place).await;
    // Now and then the server's answer is there before anybody can stop waiting for it.
    for _ in 0..1_000 {
        let mut tx = shop.outbox.begin(&pool).await.unwrap();
        tx.emit(event()).unwrap();
        let cut_off = {
            let mut savepoint = std::pin::pin!(tx.savepoint());
            let poll = std::future::poll_fn(|cx| Poll::Ready(savepoint.as_mut().poll(cx)));
            poll.await.is_pending()
        };
        if cut_off {
            assert!(tx.savepoint().await.is_err());
            tx.commit().await.unwrap_err();
            assert!(shop.delivered().await.is_empty());
            return;
        }
    }
    panic!("the answer always came at once");
}

#[tokio::test]
async fn only_our_own_unique_index_means_a_duplicate_id() {
    let place = Place::new();
    let store = place.store().await;
    place.run("create table orders (id int primary key); insert into orders values (1)").await;
    let pool = pool(&place).await;
    let row = due(event());
    let tx = store.begin(&pool).await.unwrap();
    store.commit(tx, std::slice::from_ref(&row)).await.unwrap();
    let tx = store.begin(&pool).await.unwrap();
    let error = store.commit(tx, &[due(event()), row]).await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::DuplicateId)), "{error:?}");
    assert_eq!(place.rows().await, 1, "all or none");

    let mut tx = pool.begin().await.unwrap();
    let again = AssertSqlSafe(format!("insert into {}.orders values (1)", place.schema));
    assert!(tx.execute(again).await.is_err());
    let error = store.insert(&mut tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::Driver(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_refused_by_a_deferred_constraint_was_rolled_back() {
    let shop = Shop::new().await;
    let insert = AssertSqlSafe(format!("insert into {} values (1, 7)", shop.table()));
    let pool = pool(&shop.place).await;
    let mut tx = shop.outbox.begin(&pool).await.unwrap();
    tx.execute(insert).await.unwrap();
    tx.emit(event()).unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");
    assert!(shop.delivered().await.is_empty());
}

/// Holds E6: the same values as through the store's own driver.
#[tokio::test]
async fn every_value_comes_back_as_it_was() {
    let place = Place::new();
    let store = place.store().await;
    let (pool, rows) = (pool(&place).await, all_rows());
    let tx = store.begin(&pool).await.unwrap();
    let born = store.commit(tx, &rows).await.unwrap();
    check(&store, &rows, &born).await;
}

/// Holds W5: several statements, one transaction, one order.
#[tokio::test]
async fn a_commit_of_more_than_one_statement_is_whole_and_in_order() {
    let place = Place::new();
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

/// Holds W5. Fault 21: a write that is dropped on its way leaves all of its events or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_many_that_is_dropped_leaves_all_or_none() {
    const MANY: i64 = 3_000;
    let place = Place::new();
    let outbox = Outbox::writer_only(place.store().await);
    let pool = pool(&place).await;
    for n in 0..20 {
        let mut tx = pool.begin().await.unwrap();
        let wait = std::time::Duration::from_micros(2_500 * n);
        let events = (0..MANY).map(|_| event());
        let _ = tokio::time::timeout(wait, outbox.write_all(&mut tx, events)).await;
        let _ = tx.commit().await;
        let written = place.rows().await;
        assert_eq!(written % MANY, 0, "{written} rows after {wait:?}");
    }
}
