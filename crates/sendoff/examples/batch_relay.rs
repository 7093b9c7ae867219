//! Events in batches: taken, answered one by one, committed; then a relay that does it in a loop.
//!
//! Run it with `cargo run -p sendoff --example batch_relay --features sqlite`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use sendoff::metrics::Counters;
use sendoff::relay::{Consumer, Relay, RelayOptions};
use sendoff::sqlite::SqliteStore;
use sendoff::{Delivery, HandlerResult, Outbox};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    run().await
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("shop.db")).await?;
    let outbox = Outbox::writer_only(store.clone());
    let mut conn = store.connect()?;
    let mut tx = outbox.begin_blocking(&mut conn)?;
    for total in 0..100 {
        tx.emit(("order.placed", serde_json::json!({ "total": total })))?;
    }
    tx.commit()?;

    // One batch by hand: the first half is acknowledged, what is not answered stays as it was.
    let consumer = Consumer::new(store.clone(), RelayOptions::default())?;
    let mut batch = consumer.fetch().await?.context("a hundred events are due")?;
    let first: Vec<_> = batch.records().take(25).map(|event| event.id()).collect();
    for id in first {
        batch.ack(id)?;
    }
    println!("by hand:  {:?}", batch.commit().await?);

    // The rest by a relay.
    let (counters, left) = (Arc::new(Counters::default()), Arc::new(AtomicU32::new(75)));
    let done = Arc::new(tokio::sync::Notify::new());
    let (count, tell) = (left.clone(), done.clone());
    let handler = move |_: Delivery| {
        let last = count.fetch_sub(1, Ordering::Relaxed) == 1;
        if last {
            tell.notify_one();
        }
        async { HandlerResult::Ok(()) }
    };
    let relay = Relay::builder(store.clone()).metrics(counters.clone()).build(handler)?;
    relay.run(done.notified()).await;
    let values = counters.values();
    println!("by relay: {} events in {} batches", values.processed, values.batches);
    anyhow::ensure!(values.processed == 75, "some events are missing");
    store.close().await;
    Ok(())
}
