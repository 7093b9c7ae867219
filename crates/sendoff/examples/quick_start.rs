//! Writes events in the transaction that changes data, and sees them delivered.
//!
//! `cargo run -p sendoff --example quick_start --features sqlite`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::Result;
use sendoff::sqlite::SqliteStore;
use sendoff::store::InspectStore;
use sendoff::{Delivery, Event, HandlerResult, Outbox};
use serde::{Deserialize, Serialize};

/// What is told to others. The struct as JSON is the payload.
#[derive(Serialize, Deserialize, Event)]
#[event(type = "order.placed")]
struct OrderPlaced {
    order: i64,
    total: u32,
}

/// The handler. `Ok` means that the effect is durable, and the event is done.
async fn ship(placed: OrderPlaced, delivery: Delivery) -> HandlerResult {
    println!("shipping order {} ({} cents), event {}", placed.order, placed.total, delivery.id());
    Ok(())
}

pub(crate) async fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("shop.db")).await?;
    let outbox = Outbox::builder(store.clone()).on_event::<OrderPlaced>(ship).start().await?;

    let mut conn = store.connect()?;
    conn.execute_batch("create table orders (id integer primary key, total integer not null)")?;

    // One transaction: the order and its event, both or none.
    let mut tx = outbox.begin_blocking(&mut conn)?;
    tx.execute("insert into orders values (1, 990)", [])?;
    let placed = tx.emit(OrderPlaced { order: 1, total: 990 })?;
    tx.commit()?;
    println!("committed order 1 with event {placed}");

    // Without a commit nothing happened: no order, no event, no delivery.
    let mut tx = outbox.begin_blocking(&mut conn)?;
    tx.execute("insert into orders values (2, 50)", [])?;
    tx.emit(OrderPlaced { order: 2, total: 50 })?;
    tx.rollback()?;
    println!("rolled back order 2");

    // Lets the lanes drain and writes what became of every event.
    outbox.close().await;

    let counts = store.counts().await?;
    println!(
        "in the table: {} done, {} pending, {} dead",
        counts.done,
        counts.pending(),
        counts.dead
    );
    assert_eq!((counts.done, counts.pending(), counts.dead), (1, 0, 0));
    store.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run().await
}
