//! The engine's behaviour, stage by stage, over the store in memory and on paused time.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod attacked;
mod awaited;
mod capture;
mod carried;
mod claims;
mod close;
mod crowded;
mod dispatch;
mod fair;
mod flaky;
mod handled;
mod handover;
mod hostile;
mod hung;
mod journal;
mod letters;
mod log_table;
mod logged;
mod metrics;
mod operate;
#[cfg(feature = "serde")]
mod options;
mod order;
mod outage;
mod paced;
mod paused;
mod pressed;
mod publish;
mod reactions;
mod reclaimed;
mod registered;
mod relay;
mod relaying;
mod replayed;
mod routed;
mod settle;
mod settle_in;
mod share;
mod shield;
mod silent;
mod start;
mod stuck;
mod timed;
mod traced;
mod turns;
mod typed;
mod upkeep;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{Claim, ClaimStore, Row, Suspects};
use sendoff_engine::{Handler, HandlerOptions, HandlerResult, Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;

const EVENT: &str = "order.placed";
const SECOND: Duration = Duration::from_secs(1);

fn event() -> Event {
    Event::json(EVENT, &1).unwrap()
}

/// Without jitter in the way of an assertion about time.
fn options() -> OutboxOptions {
    OutboxOptions { poll_interval: SECOND, ..OutboxOptions::default() }
}

async fn commit(outbox: &Outbox<MemoryStore>, event: &Event) -> EventId {
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    let id = tx.emit(event).unwrap();
    tx.commit().await.unwrap();
    id
}

async fn fill(store: &MemoryStore, event_type: &'static str, count: usize) {
    let outbox = Outbox::writer_only(store.clone());
    let mut left = count;
    while left > 0 {
        let mut tx = outbox.begin(store).await.unwrap();
        let some = left.min(1_000);
        for _ in 0..some {
            tx.emit(Event::json(event_type, &1).unwrap()).unwrap();
        }
        left -= some;
        tx.commit().await.unwrap();
    }
}

fn row(store: &MemoryStore, id: EventId) -> Row {
    store.rows().into_iter().find(|row| row.event.id() == id).unwrap()
}

/// The type whose handler is [`hang`].
const HANGS: &str = "hangs";

/// A handler that never returns.
async fn hang(_: Delivery) -> HandlerResult {
    std::future::pending().await
}

/// A handler that takes so long for each event.
fn slow(inbox: &Inbox, time: Duration) -> impl Handler + Clone {
    let inbox = inbox.clone();
    move |delivery: Delivery| {
        let inbox = inbox.clone();
        async move {
            tokio::time::sleep(time).await;
            inbox.handle(delivery).await
        }
    }
}

/// Without a limit on handlers, which is the worst that a user can ask for.
fn unlimited() -> OutboxOptions {
    OutboxOptions {
        handler: HandlerOptions { timeout: None, ..HandlerOptions::default() },
        ..options()
    }
}

/// Every row has been held by two nodes that vanished.
async fn lose_twice(store: &MemoryStore) {
    for owner in ["first", "second"] {
        let claim = Claim { suspects: Suspects::Skip, ..Claim::new(owner, 1_000, SECOND) };
        assert!(!store.claim(&claim).await.unwrap().rows.is_empty());
        tokio::time::sleep(2 * SECOND).await;
    }
}

/// A handler that takes a second, and the most of its runs that went on at once.
fn counting() -> (impl Handler + Clone, Arc<AtomicUsize>) {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let handler = move |_: Delivery| {
        let (now, seen) = (now.clone(), seen.clone());
        async move {
            seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(SECOND).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    };
    (handler, most)
}
