//! MySQL or MariaDB through mysql_async.
//!
//! `cargo xtask example mysql` (on a MariaDB of its own), or with a server of yours
//! `DATABASE_URL=mysql://app@localhost/shop cargo run -p sendoff --example mysql --features mysql`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::{Context, Result};
use mysql_async::Pool;
use mysql_async::prelude::Queryable;
use sendoff::mysql::MysqlStore;
use sendoff::{Delivery, Event, HandlerResult, Outbox};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(type = "order.placed")]
struct OrderPlaced {
    order: u64,
}

async fn ship(placed: OrderPlaced, delivery: Delivery) -> HandlerResult {
    println!("shipping order {}, event {}", placed.order, delivery.id());
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<()> {
    let pool = Pool::from_url(url)?;
    let orders = "create table if not exists orders (id bigint unsigned auto_increment primary key, item text)";
    pool.get_conn().await?.query_drop(orders).await?;

    let store = MysqlStore::connect(url).await?;
    store.migrate().await?;
    let outbox = Outbox::builder(store.clone()).on_event::<OrderPlaced>(ship).start().await?;

    let mut tx = outbox.begin(&pool).await?; // dereferences to mysql_async's transaction
    tx.exec_drop("insert into orders (item) values (?)", ("tea",)).await?;
    let order = tx.last_insert_id().context("an order has an id")?;
    let id = tx.emit(OrderPlaced { order })?;
    tx.commit().await?;
    println!("committed order {order} with event {id}");

    let closed = outbox.close().await;
    anyhow::ensure!(!closed.cut_off && !closed.unsettled, "{closed:?}");
    store.close().await;
    pool.disconnect().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(&std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?).await
}
