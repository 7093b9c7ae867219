//! A small application that the cases of the capture suite share.

use std::time::Duration;

use sendoff_core::{Event, EventId};
use sendoff_engine::store::InspectStore;
use sendoff_engine::{Outbox, OutboxOptions};

use super::harness::{CaptureHarness, Database, Face, Open, StoreOf};
use crate::acceptance::Inbox;
use crate::wait::eventually;

const EVENT: &str = "order.placed";

pub(super) fn event() -> Event {
    Event::json_text(EVENT, "{}").expect("an event")
}

pub(super) fn keyed(key: &str) -> Event {
    Event::builder(EVENT).ordering_key(key).json_text("{}").build().expect("an event")
}

pub(super) fn events(count: usize) -> Vec<Event> {
    (0..count).map(|_| event()).collect()
}

pub(super) fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(Event::id).collect()
}

/// An application that writes one way, and delivers what it wrote.
pub(super) struct Shop<'h, H: CaptureHarness> {
    pub(super) harness: &'h H,
    pub(super) face: Face,
    pub(super) outbox: Outbox<StoreOf<H>>,
    pub(super) conn: H::Conn,
    inbox: Inbox,
}

impl<'h, H: CaptureHarness> Shop<'h, H> {
    pub(super) async fn open(harness: &'h H, face: Face) -> Self {
        let inbox = Inbox::new();
        let options = OutboxOptions {
            poll_interval: Duration::from_millis(50),
            hot_grace: Duration::from_secs(2),
            ..OutboxOptions::default()
        };
        let builder = Outbox::builder(harness.store()).options(options);
        let outbox = builder.on(EVENT, inbox.clone()).start().await.expect("good options");
        Self { harness, face, outbox, conn: harness.connect().await, inbox }
    }

    /// One that leaves delivery to others: what it wrote stays as it was.
    pub(super) async fn writer(harness: &'h H, face: Face) -> Self {
        let outbox = Outbox::writer_only(harness.store());
        Self { harness, face, outbox, conn: harness.connect().await, inbox: Inbox::new() }
    }

    pub(super) async fn begin(&mut self) -> Open<'_> {
        begin::<H>(self.face, &mut self.conn, &self.outbox).await
    }

    /// A statement that makes an order.
    pub(super) fn order(&self, id: usize) -> String {
        format!("insert into {} (id) values ({id})", self.harness.database().orders_table())
    }

    /// How many rows others can see.
    pub(super) async fn rows(&self) -> usize {
        let counts = self.harness.store().counts().await.expect("counts");
        (counts.new + counts.retry + counts.done + counts.dead) as usize
    }

    pub(super) async fn has_orders(&self, expected: &[i64]) {
        if let Some(orders) = self.harness.database().orders().await {
            assert_eq!(orders, expected, "orders");
        }
    }

    /// These events left and no other, and there is a row of each and of nothing else. Answers those that have a
    /// key, as they came.
    pub(super) async fn delivered(mut self, expected: &[EventId]) -> Vec<EventId> {
        // It takes the same way, after whatever is on it.
        let last = event();
        let mut tx = self.begin().await;
        tx.write(std::slice::from_ref(&last)).await.expect("a good event");
        tx.commit().await.expect("a commit");
        let mut expected = expected.to_vec();
        expected.push(last.id());
        expected.sort_unstable();
        let there = async || expected.iter().all(|id| self.inbox.ids().contains(id));
        eventually("the last event, and those before", there).await;
        self.outbox.close().await;
        assert_eq!(self.inbox.ids(), expected);
        assert_eq!(self.rows().await, expected.len(), "rows");
        let received = self.inbox.received();
        let keyed = received.iter().filter(|delivery| delivery.ordering_key().is_some());
        keyed.map(|delivery| delivery.id()).collect()
    }
}

pub(super) async fn begin<'c, H: CaptureHarness>(
    face: Face,
    conn: &'c mut H::Conn,
    outbox: &'c Outbox<StoreOf<H>>,
) -> Open<'c> {
    let begun = match face {
        Face::Guard => H::begin(conn, outbox).await,
        Face::Own => H::own(conn, outbox).await,
    };
    begun.expect("a transaction")
}
