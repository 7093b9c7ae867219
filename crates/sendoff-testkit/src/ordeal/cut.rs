//! A node that is cut off from its database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, Status};
use sendoff_engine::relay::{ClaimMode, Relay};
use sendoff_engine::store::{Birth, InspectStore, NewRow};
use sendoff_engine::{HandlerResult, Outbox};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::node::{outbox_options, relay_options};
use super::{EVENT, Kind, OrdealHarness};
use crate::acceptance::Inbox;
use crate::proxy::Proxy;
use crate::wait::within;

const PLENTY: Duration = Duration::from_secs(60);
const EVENTS: usize = 5;

/// Fault 6: between a node and its database nothing goes by any more, and the socket stays open. The
/// node begins nothing once others may have its rows, they take over, its late settlement changes
/// nothing, and it works again when the database is back.
pub async fn a_node_that_is_cut_off_stops_in_time<H: OrdealHarness>(harness: &H, kind: Kind) {
    let proxy = Proxy::start(harness.server()).await.unwrap();
    let store = harness.store().await;
    let due = |event: &Event| NewRow { event: event.clone(), birth: Birth::Due };
    let events: Vec<_> = (0..EVENTS).map(|n| Event::json(EVENT, &n).unwrap()).collect();
    let (begun, first, go_on) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (begun, first, go_on) = (begun.clone(), first.clone(), go_on.clone());
        move |_: Delivery| -> std::pin::Pin<Box<dyn Future<Output = HandlerResult> + Send>> {
            let (number, first, go_on) =
                (begun.fetch_add(1, Ordering::SeqCst), first.clone(), go_on.clone());
            Box::pin(async move {
                if number == 0 {
                    first.notify_one();
                    go_on.notified().await;
                }
                Ok(())
            })
        }
    };
    let mut node = JoinSet::new();
    let cut_off = harness.store_at(proxy.address()).await;
    match kind {
        Kind::Outbox => {
            let options = sendoff_engine::OutboxOptions { workers: 1, ..outbox_options() };
            let outbox = Outbox::builder(cut_off).options(options).on(EVENT, handler).start().await;
            node.spawn(async move {
                let _outbox = outbox.unwrap();
                std::future::pending::<()>().await;
            });
        }
        Kind::Held | Kind::Locked => {
            let mode = if kind == Kind::Held { ClaimMode::Held } else { ClaimMode::Locked };
            let options = sendoff_engine::relay::RelayOptions { workers: 1, ..relay_options(mode) };
            let relay = Relay::builder(cut_off).options(options).build(handler).unwrap();
            node.spawn(async move {
                let _relaying = relay.start().await.unwrap();
                std::future::pending::<()>().await;
            });
        }
    }
    harness.write(&store, &events.iter().map(due).collect::<Vec<_>>()).await;
    tokio::time::timeout(PLENTY, first.notified()).await.expect("it takes them");

    proxy.silence(true);
    let inbox = Inbox::new();
    let other = Outbox::builder(harness.store().await).options(outbox_options());
    let other = other.on(EVENT, inbox.clone()).start().await.unwrap();
    let over = async || store.counts().await.unwrap().pending() == 0;
    within(PLENTY, "another to take over", over).await;
    other.close().await;
    assert_eq!(inbox.received().len(), EVENTS, "all of them, once");
    go_on.notify_one();
    let done_at = async |event: &Event| {
        let row = store.find(event.id()).await.unwrap().unwrap();
        assert_eq!(row.status, Status::Done);
        row.done_at
    };
    let mut before = Vec::new();
    for event in &events {
        before.push(done_at(event).await);
    }

    proxy.silence(false);
    let next = Event::json(EVENT, "next").unwrap();
    harness.write(&store, &[due(&next)]).await;
    within(PLENTY, "the node to work again", over).await;
    assert_eq!(begun.load(Ordering::SeqCst), 2, "what it had begun, and the next one");
    for (event, before) in events.iter().zip(before) {
        assert_eq!(done_at(event).await, before, "its late settlement changed something");
    }
    node.shutdown().await;
}
