//! Through diesel-async.

use ::diesel::result::Error;
use ::diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use sendoff_core::{Event, EventId, Lane};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{Capture, WriteError};
use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore};
use sendoff_testkit::acceptance::{End, Face, OutboxHarness, async_trait};
use tokio::sync::Mutex;

use crate::commit::Shop;
use crate::place::{Place, claim, due, event};
use crate::thorny::{all_rows, check};

struct Connected {
    store: PostgresStore,
    conn: Mutex<AsyncPgConnection>,
    _place: Place,
}

impl Connected {
    async fn open(doorbell: Doorbell) -> Self {
        let place = Place::new();
        let store = place.store_with(PostgresOptions { doorbell, ..place.options() }).await;
        Self { store, conn: Mutex::new(connection(&place).await), _place: place }
    }
}

async fn connection(place: &Place) -> AsyncPgConnection {
    AsyncPgConnection::establish(&place.url).await.unwrap()
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
        let mut conn = self.conn.lock().await;
        let mut receipt = None;
        let ended = conn
            .transaction(async |conn| {
                receipt = Some(outbox.write_all(&mut **conn, events).await.unwrap());
                if end == End::RollBack { Err(Error::RollbackTransaction) } else { Ok(()) }
            })
            .await;
        assert_eq!(ended.is_err(), end == End::RollBack, "{ended:?}");
        let staged = receipt.unwrap();
        end.receipt(staged)
    }
}

mod suite {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: Connected::open(Doorbell::On).await);
}

mod without_session_state {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: Connected::open(Doorbell::Off).await);
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_of_a_commit_that_was_a_rollback_delivers_nothing() {
    let shop = Shop::new().await;
    let mut conn = connection(&shop.place).await;
    let staged = conn
        .transaction(async |conn| {
            let staged = shop.outbox.write(conn, event()).await.unwrap();
            assert!(conn.batch_execute("select 1 / 0").await.is_err());
            Ok::<_, Error>(staged)
        })
        .await
        .expect("diesel says that it committed");
    staged.release();
    assert_eq!(shop.place.rows().await, 0);
    assert!(shop.delivered().await.is_empty());
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_under_a_rolled_back_savepoint_is_not_delivered() {
    let shop = Shop::new().await;
    let mut conn = connection(&shop.place).await;
    let mut undone = None;
    let kept = conn
        .transaction(async |conn| {
            let kept = shop.outbox.write(conn, event()).await.unwrap();
            conn.transaction(async |conn| {
                undone = Some(shop.outbox.write(conn, event()).await.unwrap());
                Err::<(), _>(Error::RollbackTransaction)
            })
            .await
            .unwrap_err();
            Ok::<_, Error>(kept)
        })
        .await
        .unwrap();
    let id = kept.id();
    undone.unwrap().release();
    kept.release();
    assert_eq!(shop.delivered().await, [id]);
}

/// Holds W1: a connection is not a transaction.
#[tokio::test]
async fn without_a_transaction_nothing_is_written() {
    let place = Place::new();
    let store = place.store().await;
    let mut conn = connection(&place).await;
    // Twice: the second time the statement is prepared already.
    for _ in 0..2 {
        let error = store.insert(&mut conn, &[due(event())]).await.unwrap_err();
        assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    }
    conn.batch_execute("begin").await.unwrap();
    store.insert(&mut conn, &[due(event())]).await.unwrap();
    conn.batch_execute("commit").await.unwrap();
    assert_eq!(place.rows().await, 1, "whoever began it");

    conn.batch_execute("begin").await.unwrap();
    store.insert(&mut conn, &[due(event())]).await.unwrap();
    conn.batch_execute("rollback").await.unwrap();
    let error = store.insert(&mut conn, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    let rolled_back = conn
        .transaction(async |conn| {
            conn.batch_execute("rollback").await?;
            let error = store.insert(conn, &[due(event())]).await.unwrap_err();
            assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
            Err::<(), _>(Error::RollbackTransaction)
        })
        .await;
    assert!(rolled_back.is_err());
    assert_eq!(place.rows().await, 1);
}

#[tokio::test]
async fn only_our_own_unique_index_means_a_duplicate_id() {
    let place = Place::new();
    let store = place.store().await;
    let mut conn = connection(&place).await;
    let row = due(event());
    conn.batch_execute("begin").await.unwrap();
    store.insert(&mut conn, std::slice::from_ref(&row)).await.unwrap();
    conn.batch_execute("commit; begin").await.unwrap();
    let error = store.insert(&mut conn, &[due(event()), row]).await.unwrap_err();
    assert!(matches!(error, WriteError::DuplicateId), "{error:?}");
    let error = store.insert(&mut conn, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::Driver(_)), "aborted by now: {error:?}");
    conn.batch_execute("rollback").await.unwrap();
    assert_eq!(place.rows().await, 1, "all or none");
}

/// Holds E6: the same values as through the store's own driver.
#[tokio::test]
async fn every_value_comes_back_as_it_was() {
    let place = Place::new();
    let store = place.store().await;
    let (mut conn, rows) = (connection(&place).await, all_rows());
    conn.batch_execute("begin").await.unwrap();
    let born = store.insert(&mut conn, &rows).await.unwrap();
    conn.batch_execute("commit").await.unwrap();
    check(&store, &rows, &born).await;
}

/// Holds W5: one transaction, one order.
#[tokio::test]
async fn more_rows_than_a_claim_takes_are_whole_and_in_order() {
    let place = Place::new();
    let store = place.store().await;
    let mut conn = connection(&place).await;
    let rows: Vec<_> = (0..1_500).map(|_| due(event())).collect();
    conn.batch_execute("begin").await.unwrap();
    assert_eq!(store.insert(&mut conn, &rows).await.unwrap().len(), rows.len());
    conn.batch_execute("commit").await.unwrap();
    let mut claimed = claim(&store, "a").await;
    claimed.extend(claim(&store, "a").await);
    assert!(claimed.iter().map(|row| row.id).eq(rows.iter().map(|row| row.event.id())));
}

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, mut conn) = (shop.outbox.clone(), connection(&shop.place).await);
    let id = tokio::spawn(async move {
        let staged = conn
            .transaction(async |conn| Ok::<_, Error>(outbox.write(conn, event()).await.unwrap()))
            .await
            .unwrap();
        let id = staged.id();
        staged.release();
        id
    })
    .await
    .unwrap();
    shop.inbox.has(1).await;
    assert_eq!(shop.inbox.lanes(), [Lane::Hot]);
    assert_eq!(shop.delivered().await, [id]);
}

/// Holds W5. Fault 21: a write that is dropped on its way leaves all of its events or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_many_that_is_dropped_leaves_all_or_none() {
    const MANY: i64 = 3_000;
    let place = Place::new();
    let outbox = Outbox::writer_only(place.store().await);
    let mut conn = connection(&place).await;
    for n in 0..20 {
        conn.batch_execute("begin").await.unwrap();
        let wait = std::time::Duration::from_micros(2_500 * n);
        let events = (0..MANY).map(|_| event());
        let _ = tokio::time::timeout(wait, outbox.write_all(&mut conn, events)).await;
        let _ = conn.batch_execute("commit").await;
        let written = place.rows().await;
        assert_eq!(written % MANY, 0, "{written} rows after {wait:?}");
    }
}
