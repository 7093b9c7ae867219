//! PostgreSQL through diesel-async: events are written on its connection, in a transaction.
//!
//! `cargo xtask example diesel_async`, or with a server of yours
//! `DATABASE_URL=postgres://app@localhost/shop cargo run -p sendoff --example diesel_async --features postgres-diesel-async`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::{Context, Result};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use sendoff::postgres::PostgresStore;
use sendoff::{Closed, Delivery, HandlerResult, Outbox};

async fn ship(delivery: Delivery) -> HandlerResult {
    println!("shipping {}, event {}", delivery.read_json::<String>()?, delivery.id());
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<()> {
    let mut conn = AsyncPgConnection::establish(url).await?;
    conn.batch_execute("create table if not exists orders (item text not null)").await?;
    let store = PostgresStore::connect(url).await?;
    store.migrate().await?;
    let outbox = Outbox::builder(store.clone()).on("order.placed", ship).start().await?;

    let mut tx = outbox.begin(&mut conn).await?; // dereferences to diesel's connection
    diesel::sql_query("insert into orders values ('tea')").execute(&mut **tx).await?;
    let id = tx.emit(("order.placed", r#""tea""#))?;
    tx.commit().await?;
    println!("committed an order with event {id}");

    // Or inside a transaction that diesel begins and ends.
    let staged = conn
        .transaction(async |conn| {
            diesel::sql_query("insert into orders values ('cake')").execute(conn).await?;
            anyhow::Ok(outbox.write(conn, ("order.placed", r#""cake""#)).await?)
        })
        .await?;
    staged.release(); // deliver now; forgetting it costs latency, never the event

    anyhow::ensure!(outbox.close().await == Closed::default(), "not everything came to its end");
    store.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(&std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?).await
}
