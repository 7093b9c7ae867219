//! Nothing leaves that did not commit, whatever the driver says.

use std::time::Duration;

use sendoff_core::{Event, EventId, Lane};
use sendoff_engine::capture::{Capture, Commit, CommitError, WriteError};
use sendoff_engine::store::InspectStore;
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::eventually;

use crate::place::{Place, claim, due, event};

const GRACE: Duration = Duration::from_millis(200);

pub(crate) struct Shop {
    pub(crate) place: Place,
    pub(crate) outbox: Outbox<PostgresStore>,
    pub(crate) inbox: Inbox,
}

impl Shop {
    pub(crate) async fn new() -> Self {
        Self::with_grace(GRACE).await
    }

    /// One whose hot lane is in no hurry, for tests of what goes through it.
    pub(crate) async fn unhurried() -> Self {
        Self::with_grace(OutboxOptions::default().hot_grace).await
    }

    async fn with_grace(hot_grace: Duration) -> Self {
        let place = Place::new();
        let (store, inbox) = (place.store().await, Inbox::new());
        let orders = "create table orders (id int primary key, parent int references orders
                          deferrable initially deferred)";
        place.run(orders).await;
        let options = OutboxOptions {
            hot_grace,
            poll_interval: Duration::from_millis(50),
            ..OutboxOptions::default()
        };
        let builder = Outbox::builder(store).options(options).on("order.placed", inbox.clone());
        let outbox = builder.start().unwrap();
        Self { place, outbox, inbox }
    }

    pub(crate) fn table(&self) -> String {
        format!("{}.orders", self.place.schema)
    }

    /// Waits until everything that could leave has left, and says what did.
    pub(crate) async fn delivered(self) -> Vec<EventId> {
        // Due after the grace of anything before it, so a phantom would come first.
        let last = Event::builder("order.placed").delay(GRACE * 2).json(&1).build().unwrap();
        let mut client = self.place.client().await;
        let mut tx = self.outbox.begin(&mut client).await.unwrap();
        tx.emit(&last).unwrap();
        tx.commit().await.unwrap();
        eventually("the last event", async || self.inbox.ids().contains(&last.id())).await;
        self.outbox.close().await;
        self.inbox.ids().into_iter().filter(|id| *id != last.id()).collect()
    }
}

/// Holds W3: the server answers this COMMIT with ROLLBACK, and the driver calls that a success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swallowed_error_makes_the_commit_fail_and_nothing_is_delivered() {
    let shop = Shop::new().await;
    let mut client = shop.place.client().await;
    let mut tx = shop.outbox.begin(&mut client).await.unwrap();
    assert!(tx.batch_execute("select 1 / 0").await.is_err());
    tx.emit(event()).unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");
    assert_eq!(shop.place.rows().await, 0);

    let tx = shop.outbox.begin(&mut client).await.unwrap();
    assert!(tx.batch_execute("select 1 / 0").await.is_err());
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "without events too: {error:?}");
    assert!(shop.delivered().await.is_empty());
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_of_a_commit_that_was_a_rollback_delivers_nothing() {
    let shop = Shop::new().await;
    let mut client = shop.place.client().await;
    let mut tx = client.transaction().await.unwrap();
    let staged = shop.outbox.write(&mut tx, event()).await.unwrap();
    assert!(tx.batch_execute("select 1 / 0").await.is_err());
    tx.commit().await.expect("the driver says that it committed");
    staged.release();
    assert!(shop.delivered().await.is_empty());
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_under_a_rolled_back_savepoint_is_not_delivered() {
    let shop = Shop::new().await;
    let mut client = shop.place.client().await;
    let mut tx = client.transaction().await.unwrap();
    let kept = shop.outbox.write(&mut tx, event()).await.unwrap();
    let mut nested = tx.transaction().await.unwrap();
    let undone = shop.outbox.write(&mut nested, event()).await.unwrap();
    nested.rollback().await.unwrap();
    tx.commit().await.unwrap();
    let kept_id = kept.id();
    undone.release();
    kept.release();
    assert_eq!(shop.delivered().await, [kept_id]);
}

/// Holds W3: guards within guards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_staged_under_a_rolled_back_savepoint_is_not_delivered() {
    let shop = Shop::new().await;
    let table = shop.table();
    let mut client = shop.place.client().await;
    let mut tx = shop.outbox.begin(&mut client).await.unwrap();
    let outer = tx.emit(event()).unwrap();
    {
        let mut dropped = tx.savepoint().await.unwrap();
        dropped.emit(event()).unwrap();
        dropped.batch_execute(&format!("insert into {table} values (1)")).await.unwrap();
    }
    let mut undone = tx.savepoint().await.unwrap();
    undone.emit(event()).unwrap();
    // An error under a savepoint is undone with it.
    assert!(undone.batch_execute("select 1 / 0").await.is_err());
    undone.rollback().await.unwrap();
    let mut kept = tx.savepoint().await.unwrap();
    let inner = kept.emit(event()).unwrap();
    kept.batch_execute(&format!("insert into {table} values (2)")).await.unwrap();
    kept.release().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.place.number("select sum(id) from orders").await, 2);
    let mut expected = [outer, inner];
    expected.sort_unstable();
    assert_eq!(shop.delivered().await, expected);
}

/// Holds W1: the type proves that a transaction was begun, not that it is still open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_by_hand_leaves_nothing_to_commit_itself() {
    let shop = Shop::new().await;
    let mut client = shop.place.client().await;
    let mut tx = shop.outbox.begin(&mut client).await.unwrap();
    tx.emit(event()).unwrap();
    tx.batch_execute("rollback").await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::NoTransaction)), "{error:?}");
    assert_eq!(shop.place.rows().await, 0);

    let tx = shop.outbox.begin(&mut client).await.unwrap();
    tx.batch_execute("rollback").await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "without events too: {error:?}");
    assert!(shop.delivered().await.is_empty());
}

/// Holds W1, where the insert itself must tell: often enough that the server keeps its plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_insert_knows_whether_a_transaction_is_open() {
    let shop = Shop::new().await;
    let mut client = shop.outbox.store().prepare(shop.place.client().await).await.unwrap();
    let mut committed = Vec::new();
    for by_hand in ["rollback", "commit"].into_iter().cycle().take(20) {
        let mut tx = shop.outbox.begin(&mut client).await.unwrap();
        tx.emit(event()).unwrap();
        tx.batch_execute(by_hand).await.unwrap();
        let error = tx.commit().await.unwrap_err();
        assert!(matches!(error, CommitError::Refused(WriteError::NoTransaction)), "{error:?}");

        let mut tx = shop.outbox.begin(&mut client).await.unwrap();
        committed.push(tx.emit(event()).unwrap());
        tx.commit().await.unwrap();
    }
    let mut delivered = shop.delivered().await;
    delivered.sort_unstable();
    committed.sort_unstable();
    assert_eq!(delivered, committed);
}

/// Holds W1.
#[tokio::test]
async fn a_client_needs_a_transaction_begun_by_hand() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    let rows = [due(event())];
    let error = store.insert(&mut client, &rows).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    assert_eq!(place.rows().await, 0);

    client.batch_execute("begin").await.unwrap();
    store.insert(&mut client, &rows).await.unwrap();
    client.batch_execute("commit").await.unwrap();
    assert_eq!(place.rows().await, 1);

    // What the last transaction said about itself is not believed of the next.
    let error = store.insert(&mut client, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    assert_eq!(place.rows().await, 1);
}

#[tokio::test]
async fn only_our_own_unique_index_means_a_duplicate_id() {
    let place = Place::new();
    let store = place.store().await;
    place.run("create table orders (id int primary key); insert into orders values (1)").await;
    let mut client = place.client().await;
    let row = due(event());
    let tx = client.transaction().await.unwrap();
    store.commit(tx, std::slice::from_ref(&row)).await.unwrap();
    let tx = client.transaction().await.unwrap();
    let error = store.commit(tx, &[due(event()), row]).await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::DuplicateId)), "{error:?}");
    assert_eq!(place.rows().await, 1, "all or none");

    // Somebody's trigger on our table breaks somebody's index.
    place
        .run(
            "create function trip() returns trigger language plpgsql as
                 $$ begin insert into orders values (1); return new; end $$;
             create trigger trip before insert on outbox_event
                 for each row execute function trip()",
        )
        .await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let tx = client.transaction().await.unwrap();
    let error = store.commit(tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::Driver(_))), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_refused_by_a_deferred_constraint_was_rolled_back() {
    let shop = Shop::new().await;
    let table = shop.table();
    let mut client = shop.place.client().await;
    let mut tx = shop.outbox.begin(&mut client).await.unwrap();
    tx.batch_execute(&format!("insert into {table} values (1, 7)")).await.unwrap();
    tx.emit(event()).unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");
    assert_eq!(shop.place.rows().await, 0);
    // The connection is as good as new.
    client.batch_execute("select 1").await.unwrap();
    assert!(shop.delivered().await.is_empty());
}

/// Holds W5: several statements, one transaction, one order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_more_than_one_statement_is_whole_and_in_order() {
    let place = Place::new();
    let store = place.store().await;
    let outbox = Outbox::writer_only(store.clone());
    let mut client = place.client().await;
    let events: Vec<_> = (0..2_500).map(|n| Event::json("order.placed", &n).unwrap()).collect();
    let mut tx = outbox.begin(&mut client).await.unwrap();
    for event in &events {
        tx.emit(event).unwrap();
    }
    tx.commit().await.unwrap();
    let mut claimed = Vec::new();
    for _ in 0..3 {
        claimed.extend(claim(&store, "a").await.into_iter().map(|row| row.id));
    }
    let written: Vec<_> = events.iter().map(Event::id).collect();
    assert_eq!(claimed, written);
}

/// Fault 21: a future dropped before its end, and a guard that is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dropped_is_rolled_back_and_the_connection_stays_usable() {
    let shop = Shop::new().await;
    let mut client = shop.place.client().await;
    for _ in 0..20 {
        let mut tx = shop.outbox.begin(&mut client).await.unwrap();
        tx.emit(event()).unwrap();
        drop(tx);
        let mut tx = shop.outbox.begin(&mut client).await.unwrap();
        tx.emit(event()).unwrap();
        drop(tx.commit());
    }
    assert_eq!(shop.place.rows().await, 0);
    let mut tx = shop.outbox.begin(&mut client).await.unwrap();
    let id = tx.emit(event()).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.delivered().await, [id]);
}

/// Fault 21: after its first poll a commit is with the server, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_dropped_on_its_way_is_carried_out_or_not_but_never_half() {
    let place = Place::new();
    let store = place.store().await;
    place.run("create table orders (id int primary key)").await;
    let mut client = place.client().await;
    for n in 0..30 {
        let tx = client.transaction().await.unwrap();
        let insert = format!("insert into {}.orders values ({n})", place.schema);
        tx.batch_execute(&insert).await.unwrap();
        let rows = [due(event())];
        let wait = Duration::from_micros(40 * n);
        let _ = tokio::time::timeout(wait, store.commit(tx, &rows)).await;
        client.batch_execute("select 1").await.unwrap();
        let orders = place.number("select count(*) from orders").await;
        assert_eq!(orders, place.rows().await, "an order and its event, or neither");
    }
}

/// Holds W5. Fault 21: a write that is dropped on its way leaves all of its events or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_many_that_is_dropped_leaves_all_or_none() {
    const MANY: i64 = 3_000;
    let place = Place::new();
    let outbox = Outbox::writer_only(place.store().await);
    let mut client = place.client().await;
    for n in 0..30 {
        let mut tx = client.transaction().await.unwrap();
        let wait = Duration::from_micros(1_500 * n);
        let events = (0..MANY).map(|_| event());
        let _ = tokio::time::timeout(wait, outbox.write_all(&mut tx, events)).await;
        tx.commit().await.unwrap();
        let written = place.rows().await;
        assert_eq!(written % MANY, 0, "{written} rows after {wait:?}");
    }
}

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, mut client) = (shop.outbox.clone(), shop.place.client().await);
    let id = tokio::spawn(async move {
        let mut tx = outbox.begin(&mut client).await.unwrap();
        let mut savepoint = tx.savepoint().await.unwrap();
        let id = savepoint.emit(event()).unwrap();
        savepoint.release().await.unwrap();
        tx.commit().await.unwrap();
        id
    })
    .await
    .unwrap();
    shop.inbox.has(1).await;
    assert_eq!(shop.inbox.lanes(), [Lane::Hot]);
    assert_eq!(shop.delivered().await, [id]);
}

#[tokio::test]
async fn a_closed_store_refuses_everything() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    store.close().await;
    let tx = client.transaction().await.unwrap();
    let error = store.commit(tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::Closed)), "{error:?}");
    assert!(matches!(store.counts().await, Err(sendoff_engine::store::StoreError::Closed)));
    assert_eq!(place.rows().await, 0);
}
