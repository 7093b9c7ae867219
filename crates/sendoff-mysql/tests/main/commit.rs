//! Nothing leaves that did not commit, whatever the driver says.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Pool, TxOpts};
use sendoff_core::{Event, EventId};
use sendoff_engine::capture::{Begin, Capture, Commit, CommitError, WriteError};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_mysql::MysqlStore;
use sendoff_testkit::acceptance::{Inbox, SHORT_GRACE, last_order};

use crate::place::{MARIADB, Place, due, event};

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
        Self::with_grace(server, SHORT_GRACE).await
    }

    async fn with_grace(server: &str, hot_grace: Duration) -> Self {
        let place = Place::on(server).await;
        let store = place.store().await;
        place.run("create table orders (id int primary key, total int not null default 0)").await;
        let (outbox, inbox) = Inbox::of_orders(store, hot_grace).await;
        Self { place, outbox, inbox }
    }

    /// Waits until everything that could leave has left, and says what did.
    pub(crate) async fn delivered(self) -> Vec<EventId> {
        let last = last_order();
        let mut conn = self.place.conn().await;
        let mut tx = self.outbox.begin(&mut conn).await.unwrap();
        tx.emit(&last).unwrap();
        tx.commit().await.unwrap();
        self.inbox.until(last.id(), &self.outbox).await
    }
}

/// Holds W1: with autocommit off there always is a transaction.
#[tokio::test]
async fn with_autocommit_off_a_connection_is_always_in_a_transaction() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    conn.query_drop("set autocommit = 0").await.unwrap();
    store.insert(&mut conn, &[due(event())]).await.unwrap();
    conn.query_drop("rollback").await.unwrap();
    assert_eq!(place.rows().await, 0);
}

#[tokio::test]
async fn only_our_own_key_means_a_duplicate_id() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
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

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, mut conn) = (shop.outbox.clone(), shop.place.conn().await);
    let pool = Pool::from_url(&shop.place.url).unwrap();
    let task = tokio::spawn(async move {
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
        vec![first, id]
    });
    shop.inbox.has_hot(task.await.unwrap()).await;
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
