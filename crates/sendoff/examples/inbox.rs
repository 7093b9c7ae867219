//! Effects that are made exactly once, although every event comes several times: with an inbox, and without one, by
//! settling the event in the transaction of its effect.
//!
//! `cargo run -p sendoff --example inbox --features sqlite-sqlx`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use anyhow::{Context, Result};
use sendoff::handling::Handlers;
use sendoff::sqlite::SqliteStore;
use sendoff::store::{Cutoff, InspectStore};
use sendoff::{
    Awaited, Delivery, EventId, HandlerResult, Inbox, Outbox, OutboxOptions, Processed, WeakOutbox,
};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

const PLACED: &str = "order.placed";

pub(crate) async fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("shop.db")).await?;
    let options = SqliteConnectOptions::new().filename(store.path());
    let pool = SqlitePool::connect_with(options).await?;
    for table in ["invoices", "parcels"] {
        let create = format!("create table {table} (order_id integer not null)");
        sqlx::query(sqlx::AssertSqlSafe(create)).execute(&pool).await?;
    }

    with_an_inbox(&Inbox::new(store.clone()), &pool).await?;
    with_settle_in(&store, &pool).await?;

    pool.close().await;
    store.close().await;
    Ok(())
}

/// A consumer behind a broker, which hands every message out until it is acknowledged.
async fn with_an_inbox(inbox: &Inbox<SqliteStore>, pool: &SqlitePool) -> Result<()> {
    let message = EventId::generate();
    for delivery in 1..=3 {
        let invoice = async |tx: &mut sqlx::Transaction<'static, sqlx::Sqlite>| {
            sqlx::query("insert into invoices values (1)").execute(&mut **tx).await
        };
        match inbox.process(pool, "billing", message, invoice).await? {
            Processed::First(_) => println!("billing: delivery {delivery}, invoice issued"),
            Processed::Again => {
                println!("billing: delivery {delivery}, it has its invoice already")
            }
        }
    }
    assert_eq!(count(pool, "invoices").await?, 1);
    // Longer than the broker keeps a message.
    let month = Duration::from_secs(30 * 24 * 60 * 60);
    assert_eq!(inbox.forget(Cutoff::Age(month), 1_000).await?, 0, "it is too young");
    Ok(())
}

/// A handler whose effect is in the database of the outbox.
async fn with_settle_in(store: &SqliteStore, pool: &SqlitePool) -> Result<()> {
    let mut options = OutboxOptions::default();
    options.retry.base = Duration::from_millis(50);
    let outbox = Outbox::builder(store.clone()).options(options).start().await?;
    // Weak, or the outbox would keep itself alive through its handler.
    let (weak, parcels) = (outbox.downgrade(), pool.clone());
    let mut handlers = Handlers::new();
    handlers.on(PLACED, move |delivery: Delivery| {
        send_parcel(weak.clone(), parcels.clone(), delivery)
    })?;
    outbox.register(handlers)?;

    for order in 1..=3 {
        let id = outbox.send((PLACED, json!({ "order": order }))).await?;
        let delivered = outbox.delivered(id, Duration::from_secs(20)).await?;
        assert_eq!(delivered, Awaited::Delivered);
    }
    outbox.close().await;
    assert_eq!(count(pool, "parcels").await?, 3);
    assert_eq!(store.counts().await?.done, 3);
    Ok(())
}

/// Fails now and then, before its commit and after it.
async fn send_parcel(
    outbox: WeakOutbox<SqliteStore>,
    pool: SqlitePool,
    delivery: Delivery,
) -> HandlerResult {
    let outbox = outbox.upgrade().context("the outbox is gone")?;
    let order: i64 = delivery.read_json::<serde_json::Value>()?["order"].as_i64().unwrap_or(0);
    // Deferred, and settled first: a file of SQLite's has one writer.
    let mut tx = pool.begin().await?;
    outbox.settle_in(&delivery, &mut tx).await?;
    sqlx::query("insert into parcels values (?1)").bind(order).execute(&mut *tx).await?;
    if order == 2 && delivery.attempt == 1 {
        println!("parcels: order {order} fails before its commit, and comes again");
        return Err("no tape".into());
    }
    tx.commit().await?;
    println!("parcels: order {order}, attempt {}", delivery.attempt);
    if order == 3 {
        println!("parcels: order {order} fails after its commit, and is delivered all the same");
        return Err("the printer jammed".into());
    }
    Ok(())
}

async fn count(pool: &SqlitePool, table: &str) -> Result<i64> {
    let count = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
    Ok(sqlx::query_scalar(count).fetch_one(pool).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    run().await
}
