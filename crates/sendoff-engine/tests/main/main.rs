//! The engine's behaviour, stage by stage, over the store in memory and on paused time.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod capture;
mod carried;
mod claims;
mod close;
mod crowded;
mod dispatch;
mod flaky;
mod handover;
mod hung;
mod journal;
mod metrics;
mod operate;
#[cfg(feature = "serde")]
mod options;
mod publish;
mod reclaimed;
mod relay;
mod settle;
mod share;
mod shield;
mod silent;
mod start;
mod stuck;
mod typed;
mod upkeep;

use std::time::Duration;

use sendoff_core::{Event, EventId};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::Row;
use sendoff_engine::{Outbox, OutboxOptions};

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
    let mut tx = outbox.begin(store).await.unwrap();
    for _ in 0..count {
        tx.emit(Event::json(event_type, &1).unwrap()).unwrap();
    }
    tx.commit().await.unwrap();
}

fn row(store: &MemoryStore, id: EventId) -> Row {
    store.rows().into_iter().find(|row| row.event.id() == id).unwrap()
}
