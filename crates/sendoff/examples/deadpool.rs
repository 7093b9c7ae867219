//! PostgreSQL through deadpool: one round trip commits the order and its event.
//!
//! `cargo xtask example deadpool`, or with a server of yours
//! `DATABASE_URL=postgres://app@localhost/shop cargo run -p sendoff --example deadpool --features postgres`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::{Context, Result};
use deadpool_postgres::{Manager, Pool};
use sendoff::postgres::PostgresStore;
use sendoff::{Delivery, Event, HandlerResult, Outbox};
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;

#[derive(Serialize, Deserialize, Event)]
#[event(type = "order.placed")]
struct OrderPlaced {
    item: String,
}

async fn ship(placed: OrderPlaced, delivery: Delivery) -> HandlerResult {
    println!("shipping {}, event {}", placed.item, delivery.id());
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<()> {
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(4).build()?;
    let mut client = pool.get().await?;
    client.batch_execute("create table if not exists orders (item text not null)").await?;

    // The store has connections of its own: a pool that is used up stops no delivery.
    let store = PostgresStore::connect(url).await?;
    store.migrate().await?;
    let outbox = Outbox::builder(store.clone()).on_event::<OrderPlaced>(ship).start().await?;

    let mut tx = outbox.begin(&mut client).await?; // dereferences to deadpool's transaction
    tx.execute("insert into orders values ($1)", &[&"tea"]).await?;
    let id = tx.emit(OrderPlaced { item: "tea".into() })?;
    tx.commit().await?;
    println!("committed an order with event {id}");

    let closed = outbox.close().await; // delivers what waits, settles, releases
    store.close().await;
    anyhow::ensure!(!closed.cut_off && !closed.unsettled, "{closed:?}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(&std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?).await
}
