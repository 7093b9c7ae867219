//! What starting does where the database is not as it should be, or not there.

#![allow(clippy::missing_panics_doc, reason = "a step that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a step that cannot unwrap says less, not more")]

use std::net::SocketAddr;
use std::time::Duration;

use sendoff_core::EventId;
use sendoff_core::journal::{Fact, Topic};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{
    PublishOptions, PublishOptionsError, PublishStore, Publishing, PublishingBuilder,
};
use sendoff_engine::store::{OutboxStore, StoreError};
use sendoff_engine::{Outbox, OutboxBuilder, OutboxOptions, StartError};
use tokio::net::TcpListener;

use crate::acceptance::Inbox;
use crate::journal::Latch;
use crate::steps;
use crate::wait::eventually;

fn outbox<S: OutboxStore>(store: S, inbox: &Inbox) -> OutboxBuilder<S> {
    let poll_interval = Duration::from_millis(100);
    let options = OutboxOptions { poll_interval, ..OutboxOptions::default() };
    Outbox::builder(store)
        .options(options)
        .on(steps::event().event_type().to_owned(), inbox.clone())
}

fn publishing<S: PublishStore>(journal: &Journal<S>, latch: &Latch) -> PublishingBuilder<S> {
    let everything = Topic::builder("everything").build().unwrap();
    let renew = Duration::from_millis(200);
    let options = PublishOptions { renew, lease: renew * 25, ..PublishOptions::default() };
    Publishing::builder(journal).options(options).pair(&everything, latch.publisher())
}

/// Why an outbox is not started.
pub async fn outbox_refused(store: impl OutboxStore) -> StoreError {
    match outbox(store, &Inbox::new()).start().await {
        Err(StartError::Store(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

/// Why publishing is not started.
pub async fn publishing_refused(store: impl PublishStore) -> StoreError {
    match publishing(&Journal::new(store), &Latch::new("p")).start().await {
        Err(PublishOptionsError::Store(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

/// Where nobody listens until a [`Proxy`](crate::proxy::Proxy) is started there.
pub async fn nobody_listens() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// An outbox starts although its database is unavailable, looks at it when it comes, waits until its tables
/// are there, and then delivers. `come` makes it available without tables; `migrated` makes them, and
/// writes an event.
pub async fn an_outbox_starts_without_its_database(
    store: impl OutboxStore,
    come: impl AsyncFnOnce(),
    migrated: impl AsyncFnOnce() -> EventId,
) {
    let inbox = Inbox::new();
    let outbox = outbox(store, &inbox).start().await.expect("it starts all the same");
    come().await;
    let look = || async { outbox.store().check_ready().await };
    let missing = async || matches!(look().await, Err(StoreError::NotInstalled { .. }));
    eventually("the database to be there, without tables", missing).await;
    let id = migrated().await;
    eventually("the event", async || inbox.ids() == [id]).await;
    outbox.close().await;
}

/// The same of a node that publishes, which makes its cursors then.
pub async fn publishing_starts_without_its_database<S: PublishStore + Clone>(
    store: S,
    come: impl AsyncFnOnce(),
    migrated: impl AsyncFnOnce(),
) {
    let (journal, latch) = (Journal::new(store.clone()), Latch::new("p"));
    let node = publishing(&journal, &latch).start().await.expect("it starts all the same");
    // One that nobody waits for any longer ends, whether or not there is a database.
    publishing(&journal, &latch).start().await.expect("so does another").close().await;
    come().await;
    let missing =
        async || matches!(store.check_ready().await, Err(StoreError::NotInstalled { .. }));
    eventually("the database to be there, without tables", missing).await;
    migrated().await;
    journal.append([Fact::builder(("moved", "{}"))]).await.unwrap();
    latch.wait_for(1).await;
    node.close().await;
}
