//! A link that breaks on COMMIT.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "test code, in a library")]

use std::time::Duration;

use sendoff_core::{Event, EventId, Lane};
use sendoff_engine::capture::{CommitError, CommitMark, Resolution};
use sendoff_engine::store::InspectStore;
use sendoff_engine::{Outbox, OutboxOptions};

use super::{LinkHarness, Remote};
use crate::acceptance::Inbox;
use crate::capture::StoreOf;
use crate::proxy::{Cut, Proxy};
use crate::wait::eventually;

const EVENT: &str = "order.placed";

/// An application whose link to the server breaks.
#[derive(Debug)]
pub struct Broken<H: LinkHarness> {
    /// The database.
    pub harness: H,
    /// The outbox, on links of its own that hold.
    pub outbox: Outbox<StoreOf<H>>,
    /// What it delivered.
    pub inbox: Inbox,
    proxy: Proxy,
}

impl<H: LinkHarness> Broken<H> {
    /// Starts it.
    pub async fn new(harness: H) -> Self {
        let (proxy, inbox) =
            (Proxy::start(harness.database().server()).await.unwrap(), Inbox::new());
        let options = OutboxOptions {
            hot_grace: Duration::from_millis(500),
            poll_interval: Duration::from_millis(50),
            ..OutboxOptions::default()
        };
        let builder = Outbox::builder(harness.store()).options(options);
        let outbox = builder.on(EVENT, inbox.clone()).start().await.unwrap();
        Self { harness, outbox, inbox, proxy }
    }

    /// Commits one event over a link that breaks there, and returns what was said.
    pub async fn error(&self, cut: Cut) -> (EventId, CommitError) {
        let mut conn = self.harness.connect_to(self.proxy.address()).await;
        let event = Event::json(EVENT, &1).unwrap();
        let mut tx = H::begin(&mut conn, &self.outbox).await.unwrap();
        tx.write(std::slice::from_ref(&event)).await.unwrap();
        self.proxy.cut(cut);
        let error = tx.commit().await.unwrap_err();
        assert!(self.proxy.is_cut());
        (event.id(), error)
    }

    /// The same where the outcome is unknown: what is known of it.
    pub async fn commit(&self, cut: Cut) -> CommitMark {
        let (id, error) = self.error(cut).await;
        let CommitError::Unknown { mark, .. } = error else { panic!("{error:?}") };
        assert_eq!(mark.ids, [id]);
        mark
    }

    /// Waits for what the database says of it.
    pub async fn resolves_to(&self, mark: &CommitMark, expected: Resolution) {
        // The server may need a moment to notice that its client is gone.
        let resolved = async || match self.outbox.resolve(mark).await.unwrap() {
            Resolution::NotYetKnown => false,
            answer => {
                assert_eq!(answer, expected);
                true
            }
        };
        eventually("the outcome to be known", resolved).await;
    }
}

/// Fault 4: never released, but delivered.
pub async fn a_commit_whose_answer_was_lost_is_unknown_and_resolves_to_committed<H: LinkHarness>(
    harness: H,
) {
    let broken = Broken::new(harness).await;
    let mark = broken.commit(H::Database::REPLY_LOST).await;
    assert!(mark.xid.is_some(), "the insert was answered");
    broken.resolves_to(&mark, Resolution::Committed).await;
    broken.inbox.has(1).await;
    assert_eq!(broken.inbox.lanes(), [Lane::Cold], "never released, but delivered");
    broken.outbox.close().await;
}

/// Fault 4: nothing of it is there, and nothing comes of it.
pub async fn a_commit_that_never_arrived_resolves_to_rolled_back<H: LinkHarness>(harness: H) {
    let broken = Broken::new(harness).await;
    let mark = broken.commit(H::REQUEST_LOST).await;
    assert!(mark.xid.is_some(), "the insert was answered");
    broken.resolves_to(&mark, Resolution::RolledBack).await;
    assert!(broken.outbox.store().find(mark.ids[0]).await.unwrap().is_none());
    broken.outbox.close().await;
    assert!(broken.inbox.received().is_empty());
}
