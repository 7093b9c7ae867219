//! The engine's behaviour, stage by stage, over the store in memory and on paused time.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod capture;
mod carried;
mod claims;
mod close;
mod dispatch;
mod flaky;
mod handover;
mod hung;
mod journal;
mod operate;
mod publish;
mod reclaimed;
mod relay;
mod settle;
mod shield;
mod silent;
mod stuck;
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

fn row(store: &MemoryStore, id: EventId) -> Row {
    store.rows().into_iter().find(|row| row.event.id() == id).unwrap()
}
