//! PostgreSQL through sea-orm: the order and its event in one transaction.
//!
//! `cargo xtask example sea_orm`, or with a server of yours
//! `DATABASE_URL=postgres://app@localhost/shop cargo run -p sendoff --example sea_orm --features postgres-sea-orm`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::{Context, Result};
use sea_orm::{ConnectionTrait, Database};
use sendoff::postgres::PostgresStore;
use sendoff::{Delivery, HandlerResult, Outbox};

async fn ship(delivery: Delivery) -> HandlerResult {
    println!("shipping {}, event {}", delivery.read_json::<String>()?, delivery.id());
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<()> {
    let db = Database::connect(url).await?;
    db.execute_unprepared("create table if not exists orders (item text not null)").await?;
    let store = PostgresStore::connect(url).await?;
    store.migrate().await?;
    let outbox = Outbox::builder(store.clone()).on("order.placed", ship).start().await?;

    let mut tx = outbox.begin(&db).await?; // dereferences to sea-orm's transaction
    tx.execute_unprepared("insert into orders values ('tea')").await?;
    let id = tx.emit(("order.placed", r#""tea""#))?;
    tx.commit().await?;
    println!("committed an order with event {id}");

    let closed = outbox.close().await;
    anyhow::ensure!(!closed.cut_off && !closed.unsettled, "{closed:?}");
    store.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(&std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?).await
}
