//! Two databases, two outboxes, one process. The handler of the first writes into the second, in
//! a transaction that remembers what it has seen: at least once becomes once.
//!
//! `cargo run -p sendoff --example two_databases --features sqlite`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::params;
use sendoff::sqlite::SqliteStore;
use sendoff::store::InspectStore;
use sendoff::{Delivery, Event, HandlerResult, Outbox, blocking};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize, Event)]
#[event(type = "order.placed")]
struct OrderPlaced {
    order: i64,
    total: u32,
}

#[derive(Serialize, Deserialize, Event)]
#[event(type = "invoice.issued")]
struct InvoiceIssued {
    order: i64,
}

/// Issues an invoice, once for each event, however often that is delivered.
fn issue_invoice(billing: &Outbox<SqliteStore>, delivery: &Delivery) -> HandlerResult {
    let placed: OrderPlaced = delivery.read_json()?;
    let mut conn = billing.store().connect()?;
    let mut tx = billing.begin_blocking(&mut conn)?;
    let new = tx.execute(
        "insert or ignore into invoices (event_id, order_id, total) values (?1, ?2, ?3)",
        params![delivery.id().as_bytes(), placed.order, placed.total],
    )?;
    if new == 0 {
        println!("billing: order {} has its invoice already", placed.order);
        return Ok(());
    }
    tx.emit(InvoiceIssued { order: placed.order })?;
    tx.commit()?;
    println!("billing: invoice for order {}", placed.order);
    Ok(())
}

pub(crate) async fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;

    let billing_store = SqliteStore::open(folder.path().join("billing.db")).await?;
    billing_store.connect()?.execute_batch(
        "create table invoices (
             event_id blob primary key,
             order_id integer not null,
             total    integer not null
         )",
    )?;
    let (sent, mut posted) = mpsc::unbounded_channel();
    let post = move |issued: InvoiceIssued, _: Delivery| {
        let sent = sent.clone();
        async move { HandlerResult::Ok(sent.send(issued.order)?) }
    };
    let billing =
        Outbox::builder(billing_store.clone()).on_event::<InvoiceIssued>(post).start().await?;

    let shop_store = SqliteStore::open(folder.path().join("shop.db")).await?;
    let invoices = {
        let billing = billing.clone();
        // rusqlite blocks, so this handler runs on threads that may.
        blocking(move |delivery| issue_invoice(&billing, &delivery))
    };
    let shop = Outbox::builder(shop_store.clone()).on_raw::<OrderPlaced>(invoices).start().await?;

    let mut conn = shop_store.connect()?;
    conn.execute_batch("create table orders (id integer primary key)")?;
    for order in 1..=3 {
        let mut tx = shop.begin_blocking(&mut conn)?;
        tx.execute("insert into orders values (?1)", [order])?;
        tx.emit(OrderPlaced { order, total: 990 })?;
        tx.commit()?;
        println!("shop: order {order}");
    }
    let mut orders = Vec::new();
    while orders.len() < 3 {
        let next = tokio::time::timeout(Duration::from_secs(20), posted.recv());
        let order = next.await.context("no invoice in time")?.context("nobody delivers")?;
        println!("post: invoice for order {order}");
        orders.push(order);
    }
    orders.sort_unstable();
    assert_eq!(orders, [1, 2, 3]);

    // The one that feeds first, then the one that is fed.
    shop.close().await;
    billing.close().await;
    assert_eq!(shop_store.counts().await?.done, 3);
    assert_eq!(billing_store.counts().await?.done, 3);
    shop_store.close().await;
    billing_store.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run().await
}
