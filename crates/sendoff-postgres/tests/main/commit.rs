//! Nothing leaves that did not commit, whatever the driver says.

use std::time::Duration;

use sendoff_core::EventId;
use sendoff_engine::capture::{Commit, CommitError, WriteError};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::acceptance::{Inbox, SHORT_GRACE, last_order};

use crate::place::{Place, due, event};

pub(crate) struct Shop {
    pub(crate) place: Place,
    pub(crate) outbox: Outbox<PostgresStore>,
    pub(crate) inbox: Inbox,
}

impl Shop {
    pub(crate) async fn new() -> Self {
        Self::with_grace(SHORT_GRACE).await
    }

    /// One whose hot lane is in no hurry, for tests of what goes through it.
    pub(crate) async fn unhurried() -> Self {
        Self::with_grace(OutboxOptions::default().hot_grace).await
    }

    async fn with_grace(hot_grace: Duration) -> Self {
        let place = Place::new();
        let (outbox, inbox) = Inbox::of_orders(place.store().await, hot_grace).await;
        Self { place, outbox, inbox }
    }

    /// Waits until everything that could leave has left, and says what did.
    pub(crate) async fn delivered(self) -> Vec<EventId> {
        let last = last_order();
        let mut client = self.place.client().await;
        let mut tx = self.outbox.begin(&mut client).await.unwrap();
        tx.emit(&last).unwrap();
        tx.commit().await.unwrap();
        self.inbox.until(last.id(), &self.outbox).await
    }
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

#[tokio::test]
async fn only_our_own_unique_index_means_a_duplicate_id() {
    let place = Place::new();
    let store = place.store().await;
    place.run("create table orders (id int primary key); insert into orders values (1)").await;
    let mut client = place.client().await;
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

/// What an application does in a spawned task must be `Send`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_transaction_can_be_spawned() {
    let shop = Shop::unhurried().await;
    let (outbox, mut client) = (shop.outbox.clone(), shop.place.client().await);
    let task = tokio::spawn(async move {
        let mut tx = outbox.begin(&mut client).await.unwrap();
        let mut savepoint = tx.savepoint().await.unwrap();
        let id = savepoint.emit(event()).unwrap();
        savepoint.release().await.unwrap();
        tx.commit().await.unwrap();
        vec![id]
    });
    shop.inbox.has_hot(task.await.unwrap()).await;
}
