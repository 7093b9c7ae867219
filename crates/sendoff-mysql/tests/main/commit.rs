//! Nothing leaves that did not commit, whatever the driver says.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Pool, TxOpts};
use sendoff_core::{Event, EventId, Lane};
use sendoff_engine::capture::{Begin, Capture, Commit, CommitError, WriteError};
use sendoff_engine::store::{InspectStore, StoreError};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_mysql::MysqlStore;
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::eventually;

use crate::place::{MARIADB, Place, claim, due, event};

const GRACE: Duration = Duration::from_millis(200);

pub(crate) struct Shop {
    pub(crate) place: Place,
    pub(crate) outbox: Outbox<MysqlStore>,
    pub(crate) inbox: Inbox,
}

impl Shop {
    pub(crate) async fn new() -> Self {
        Self::on(MARIADB).await
    }

    /// One whose hot lane is in no hurry, for tests of what goes through it.
    pub(crate) async fn unhurried() -> Self {
        Self::with_grace(MARIADB, OutboxOptions::default().hot_grace).await
    }

    pub(crate) async fn on(server: &str) -> Self {
        Self::with_grace(server, GRACE).await
    }

    async fn with_grace(server: &str, hot_grace: Duration) -> Self {
        let place = Place::on(server).await;
        let (store, inbox) = (place.store().await, Inbox::new());
        place.run("create table orders (id int primary key, total int not null default 0)").await;
        let options = OutboxOptions {
            hot_grace,
            poll_interval: Duration::from_millis(50),
            ..OutboxOptions::default()
        };
        let builder = Outbox::builder(store).options(options).on("order.placed", inbox.clone());
        let outbox = builder.start().unwrap();
        Self { place, outbox, inbox }
    }

    /// Waits until everything that could leave has left, and says what did.
    pub(crate) async fn delivered(self) -> Vec<EventId> {
        // Due after the grace of anything before it, so a phantom would come first.
        let last = Event::builder("order.placed").delay(GRACE * 2).json(&1).build().unwrap();
        let mut conn = self.place.conn().await;
        let mut tx = self.outbox.begin(&mut conn).await.unwrap();
        tx.emit(&last).unwrap();
        tx.commit().await.unwrap();
        eventually("the last event", async || self.inbox.ids().contains(&last.id())).await;
        self.outbox.close().await;
        self.inbox.ids().into_iter().filter(|id| *id != last.id()).collect()
    }
}

/// An ordinary error does not end a transaction here: who goes on and commits, commits what he did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_ordinary_error_the_transaction_goes_on() {
    let shop = Shop::new().await;
    let mut conn = shop.place.conn().await;
    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    tx.query_drop("insert into orders (id) values (1)").await.unwrap();
    assert!(tx.query_drop("insert into orders (id) values (1)").await.is_err());
    let id = tx.emit(event()).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.place.number("select count(*) from orders").await, 1);
    assert_eq!(shop.delivered().await, [id]);
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_under_a_rolled_back_savepoint_is_not_delivered() {
    let shop = Shop::new().await;
    let mut conn = shop.place.conn().await;
    let mut tx = conn.start_transaction(TxOpts::new()).await.unwrap();
    let kept = shop.outbox.write(&mut tx, event()).await.unwrap();
    tx.query_drop("savepoint mine").await.unwrap();
    let undone = shop.outbox.write(&mut tx, event()).await.unwrap();
    tx.query_drop("rollback to savepoint mine").await.unwrap();
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
    let mut conn = shop.place.conn().await;
    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    let outer = tx.emit(event()).unwrap();
    let mut undone = tx.savepoint().await.unwrap();
    undone.emit(event()).unwrap();
    undone.query_drop("insert into orders (id) values (1)").await.unwrap();
    undone.rollback().await.unwrap();
    let mut kept = tx.savepoint().await.unwrap();
    let inner = kept.emit(event()).unwrap();
    kept.query_drop("insert into orders (id) values (2)").await.unwrap();
    let mut innermost = kept.savepoint().await.unwrap();
    innermost.emit(event()).unwrap();
    innermost.query_drop("insert into orders (id) values (4)").await.unwrap();
    innermost.rollback().await.unwrap();
    kept.release().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.place.number("select sum(id) from orders").await, 2);
    let mut expected = [outer, inner];
    expected.sort_unstable();
    assert_eq!(shop.delivered().await, expected);
}

/// A savepoint that is dropped cannot be rolled back on the spot: then nothing commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_that_was_dropped_takes_its_transaction_with_it() {
    let shop = Shop::new().await;
    let mut conn = shop.place.conn().await;
    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    tx.emit(event()).unwrap();
    {
        let mut dropped = tx.savepoint().await.unwrap();
        dropped.query_drop("insert into orders (id) values (1)").await.unwrap();
    }
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");
    assert_eq!(shop.place.number("select count(*) from orders").await, 0);
    assert!(shop.delivered().await.is_empty());
}

/// Holds W1: the type proves that a transaction was begun, not that it is still open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_by_hand_leaves_nothing_to_commit_itself() {
    let shop = Shop::new().await;
    let mut conn = shop.place.conn().await;
    // A change of tables commits what is open, and so ends it too.
    for end in ["rollback", "commit", "create table other (id int)"] {
        let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
        tx.emit(event()).unwrap();
        tx.query_drop(end).await.unwrap();
        let error = tx.commit().await.unwrap_err();
        assert!(matches!(error, CommitError::Refused(WriteError::NoTransaction)), "{error:?}");
        assert_eq!(shop.place.rows().await, 0);
    }
    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    tx.query_drop("rollback").await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "without events too: {error:?}");
    assert!(shop.delivered().await.is_empty());
}

/// Holds W1.
#[tokio::test]
async fn a_connection_needs_a_transaction_begun_by_hand() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    let rows = [due(event())];
    let error = store.insert(&mut conn, &rows).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    assert_eq!(place.rows().await, 0);

    conn.query_drop("begin").await.unwrap();
    store.insert(&mut conn, &rows).await.unwrap();
    conn.query_drop("commit").await.unwrap();
    assert_eq!(place.rows().await, 1);

    // What the last transaction said about itself is not believed of the next.
    let error = store.insert(&mut conn, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    assert_eq!(place.rows().await, 1);

    // With autocommit off there always is one.
    conn.query_drop("set autocommit = 0").await.unwrap();
    store.insert(&mut conn, &[due(event())]).await.unwrap();
    conn.query_drop("rollback").await.unwrap();
    assert_eq!(place.rows().await, 1);
}

/// An application's connection may have another database in use, odd modes and another character set.
#[tokio::test]
async fn a_write_does_not_depend_on_the_state_of_the_session() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    for odd in [
        "use information_schema",
        "set sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'",
        "set names latin1",
        "set time_zone = '+09:00'",
        "set character_set_client = binary",
        "set session transaction isolation level serializable",
    ] {
        conn.query_drop(odd).await.unwrap();
        let rows = crate::thorny::all_rows();
        let tx = store.begin(&mut conn).await.unwrap();
        let born = store.commit(tx, &rows).await.unwrap();
        crate::thorny::check(&store, &rows, &born).await;
    }
}

#[tokio::test]
async fn only_our_own_key_means_a_duplicate_id() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    let row = due(event());
    let tx = store.begin(&mut conn).await.unwrap();
    store.commit(tx, std::slice::from_ref(&row)).await.unwrap();
    let tx = store.begin(&mut conn).await.unwrap();
    let error = store.commit(tx, &[due(event()), row]).await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::DuplicateId)), "{error:?}");
    assert_eq!(place.rows().await, 1, "all or none");

    // Somebody's trigger on our table breaks somebody's index.
    place
        .run(
            "create table others (id int, unique key mine (id)); insert into others values (1);
             create trigger trip before insert on outbox_event for each row
                 insert into others values (1)",
        )
        .await;
    let tx = store.begin(&mut conn).await.unwrap();
    let error = store.commit(tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::Driver(_))), "{error:?}");
}

/// Holds W5: several statements, one transaction, one order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_more_than_one_statement_is_whole_and_in_order() {
    let place = Place::new().await;
    let store = place.store().await;
    let outbox = Outbox::writer_only(store.clone());
    let mut conn = place.conn().await;
    let events: Vec<_> = (0..2_500).map(|n| Event::json("order.placed", &n).unwrap()).collect();
    let mut tx = outbox.begin(&mut conn).await.unwrap();
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

/// Holds W5: an error of the second statement undoes the first, and nothing else of the transaction.
#[tokio::test]
async fn a_write_of_more_than_one_statement_is_all_or_none() {
    let place = Place::new().await;
    let store = place.store().await;
    place.run("create table orders (id int primary key)").await;
    let mut conn = place.conn().await;
    let mut rows: Vec<_> = (0..1_500).map(|_| due(event())).collect();
    rows.push(rows[1_499].clone());
    let mut tx = conn.start_transaction(TxOpts::new()).await.unwrap();
    tx.query_drop("insert into orders values (1)").await.unwrap();
    let error = store.insert(&mut tx, &rows).await.unwrap_err();
    assert!(matches!(error, WriteError::DuplicateId), "{error:?}");
    tx.commit().await.unwrap();
    assert_eq!((place.rows().await, place.number("select count(*) from orders").await), (0, 1));
}

/// Fault 21: a future dropped before its end, and a guard that is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dropped_is_rolled_back_and_the_connection_stays_usable() {
    let shop = Shop::new().await;
    let mut conn = shop.place.conn().await;
    for _ in 0..20 {
        let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
        tx.emit(event()).unwrap();
        drop(tx);
        let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
        tx.emit(event()).unwrap();
        drop(tx.commit());
    }
    assert_eq!(shop.place.rows().await, 0);
    let mut tx = shop.outbox.begin(&mut conn).await.unwrap();
    let id = tx.emit(event()).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.delivered().await, [id]);
}

/// Fault 21: whenever it is dropped, a commit is carried out or not, but never half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_dropped_on_its_way_is_carried_out_or_not_but_never_half() {
    let place = Place::new().await;
    let store = place.store().await;
    place.run("create table orders (id int primary key)").await;
    for n in 0..30_u32 {
        let mut conn = place.conn().await;
        let mut tx = store.begin(&mut conn).await.unwrap();
        tx.query_drop(format!("insert into orders values ({n})")).await.unwrap();
        let rows = [due(event())];
        let wait = Duration::from_micros(40) * n;
        let _ = tokio::time::timeout(wait, store.commit(tx, &rows)).await;
        let session = conn.id();
        drop(conn);
        // The server carries out what it got before it notices that nobody listens.
        let session =
            format!("select count(*) from information_schema.processlist where id = {session}");
        eventually("the session to end", async || place.number(&session).await == 0).await;
        let orders = place.number("select count(*) from orders").await;
        assert_eq!(orders, place.rows().await, "an order and its event, or neither");
    }
}

/// Holds W5. Fault 21: a write that is dropped on its way leaves all of its events or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_many_that_is_dropped_leaves_all_or_none() {
    const MANY: i64 = 3_000;
    let place = Place::new().await;
    let outbox = Outbox::writer_only(place.store().await);
    for n in 0..20_u32 {
        let mut conn = place.conn().await;
        conn.query_drop("begin").await.unwrap();
        let wait = Duration::from_micros(2_500) * n;
        let events = (0..MANY).map(|_| event());
        let _ = tokio::time::timeout(wait, outbox.write_all(&mut conn, events)).await;
        let _ = conn.query_drop("commit").await;
        let session = conn.id();
        drop(conn);
        let session =
            format!("select count(*) from information_schema.processlist where id = {session}");
        eventually("the session to end", async || place.number(&session).await == 0).await;
        let written = place.rows().await;
        assert_eq!(written % MANY, 0, "{written} rows after {wait:?}");
    }
}

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, mut conn) = (shop.outbox.clone(), shop.place.conn().await);
    let pool = Pool::from_url(&shop.place.url).unwrap();
    let mut ids = tokio::spawn(async move {
        let mut tx = outbox.begin(&pool).await.unwrap();
        let mut savepoint = tx.savepoint().await.unwrap();
        let mut inner = savepoint.savepoint().await.unwrap();
        inner.query_drop("insert into orders (id) values (1)").await.unwrap();
        let first = inner.emit(event()).unwrap();
        inner.release().await.unwrap();
        savepoint.release().await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = outbox.begin(&mut conn).await.unwrap();
        let second = outbox.write(&mut **tx, event()).await.unwrap();
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

#[tokio::test]
async fn a_closed_store_refuses_everything() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    let tx = store.begin(&mut conn).await.unwrap();
    store.close().await;
    let error = store.commit(tx, &[due(event())]).await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::Closed)), "{error:?}");
    assert!(matches!(store.counts().await, Err(StoreError::Closed)));
    assert_eq!(place.rows().await, 0);
}

/// Everything in a row counts, not its payload alone: the server would end the connection, and with it
/// the caller's transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_into_a_packet_is_refused_and_the_transaction_lives() {
    let place = Place::new().await;
    let outbox = Outbox::writer_only(place.store().await);
    let mut conn = place.conn().await;
    let name = "n".repeat(60);
    let many = |count| {
        let event = |_| {
            let event = Event::builder(name.as_str()).aggregate(&*name, &*name).tenant_id(&*name);
            event.ordering_key(&*name).bytes(vec![7; 1_800]).build().unwrap()
        };
        (0..count).map(event).collect::<Vec<_>>()
    };
    let mut tx = conn.start_transaction(TxOpts::default()).await.unwrap();
    let refused = outbox.write_all(&mut tx, many(4_000)).await.unwrap_err();
    assert!(matches!(refused, WriteError::TooLarge { .. }), "{refused:?}");
    drop(outbox.write_all(&mut tx, many(3_000)).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(place.rows().await, 3_000);
}
