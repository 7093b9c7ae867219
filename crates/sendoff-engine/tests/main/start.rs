//! Starting, also where the database is unavailable.

use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::Publishing;
use sendoff_engine::store::StoreError;
use sendoff_engine::{Outbox, StartError};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::publish::{Call, Shaky, everything};
use super::{EVENT, SECOND, fill, options};

/// Nothing is asked of the tables before they were looked at.
#[tokio::test(start_paused = true)]
async fn an_outbox_starts_without_its_database_and_claims_when_it_is_there() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, EVENT, 1).await;
    store.set_down(true);
    let outbox = Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone());
    let outbox = outbox.start().await.unwrap();
    sleep(60 * SECOND).await;
    assert_eq!(store.claims().0, 0);
    store.set_down(false);
    within(4 * SECOND, "the event", async || inbox.received().len() == 1).await;
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_waits_for_its_database_can_be_closed() {
    let store = Flaky::default();
    store.set_down(true);
    let outbox = Outbox::builder(store).options(options()).on(EVENT, Inbox::new());
    let outbox = outbox.start().await.unwrap();
    let began = Instant::now();
    let closed = outbox.close().await;
    assert!(!closed.cut_off && began.elapsed() < SECOND, "{closed:?}, {:?}", began.elapsed());
}

#[tokio::test]
async fn a_closed_store_is_refused() {
    let store = Flaky::default();
    store.table.close();
    let started = Outbox::builder(store).on(EVENT, Inbox::new()).start().await;
    assert!(matches!(started, Err(StartError::Store(StoreError::Closed))), "{started:?}");
}

#[tokio::test(start_paused = true)]
async fn publishing_starts_without_its_database_and_makes_cursors_when_it_is_there() {
    for call in [Call::CheckReady, Call::Register] {
        let store = Shaky::default();
        let (journal, latch) = (Journal::new(store.clone()), Latch::new("p"));
        store.lose(call, 5);
        let node = Publishing::builder(&journal).pair(&everything(), latch.publisher());
        let node = node.start().await.unwrap();
        journal.append([sendoff_core::journal::Fact::builder(("moved", "{}"))]).await.unwrap();
        latch.wait_for(1).await;
        assert_eq!(store.lost_at().len(), 5);
        node.close().await;
    }
}
