//! Writes events into transactions the application holds, with rusqlite and with sqlx; savepoints,
//! and code that runs after a commit or a rollback.
//!
//! `cargo run -p sendoff --example your_own_transaction --features sqlite-sqlx`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::{Connection, TransactionBehavior};
use sendoff::event::Lane;
use sendoff::sqlite::SqliteStore;
use sendoff::store::InspectStore;
use sendoff::{Delivery, HandlerResult, Outbox};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use tokio::sync::mpsc;

const PAID: &str = "invoice.paid";

pub(crate) async fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("books.db")).await?;
    let (delivered, mut deliveries) = mpsc::unbounded_channel();
    let handler = move |delivery: Delivery| {
        let delivered = delivered.clone();
        async move { HandlerResult::Ok(delivered.send(delivery)?) }
    };
    let outbox = Outbox::builder(store.clone()).on(PAID, handler).start().await?;

    let mut conn = store.connect()?;
    conn.execute_batch("create table invoices (id integer primary key)")?;

    with_rusqlite(&outbox, &mut conn)?;
    hear(&mut deliveries, 1).await?;

    let options = SqliteConnectOptions::new().filename(store.path());
    let pool = SqlitePool::connect_with(options).await?;
    with_sqlx(&outbox, &pool).await?;
    hear(&mut deliveries, 2).await?;

    with_savepoints(&outbox, &pool).await?;
    hear(&mut deliveries, 2).await?;

    with_hooks(&outbox, &mut conn)?;
    hear(&mut deliveries, 1).await?;

    pool.close().await;
    outbox.close().await;
    assert_eq!(store.counts().await?.done, 6);
    store.close().await;
    Ok(())
}

/// A transaction of rusqlite's. Begin it as immediate where it reads before it writes: SQLite cannot
/// always turn a reader into a writer.
fn with_rusqlite(outbox: &Outbox<SqliteStore>, conn: &mut Connection) -> Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute("insert into invoices values (1)", [])?;
    let staged = outbox.write_blocking(&tx, (PAID, json!({ "invoice": 1 })))?;
    tx.commit()?;
    // The receipt says: committed, deliver now. The database is asked whether that is true first.
    // A receipt that is forgotten costs latency, never the event.
    println!("rusqlite: wrote {}", staged.id());
    staged.release();
    Ok(())
}

/// A transaction of sqlx's, and several events in one statement.
async fn with_sqlx(outbox: &Outbox<SqliteStore>, pool: &SqlitePool) -> Result<()> {
    let mut tx = pool.begin().await?;
    sqlx::query("insert into invoices values (2), (3)").execute(&mut *tx).await?;
    let events = [2, 3].map(|invoice| (PAID, json!({ "invoice": invoice })));
    let staged = outbox.write_all(&mut tx, events).await?;
    tx.commit().await?;
    println!("sqlx: wrote {:?}", staged.ids());
    staged.release();
    Ok(())
}

/// With a transaction of ours, events are staged, and what a savepoint undoes is not sent either.
async fn with_savepoints(outbox: &Outbox<SqliteStore>, pool: &SqlitePool) -> Result<()> {
    let mut tx = outbox.begin(pool).await?;
    tx.emit((PAID, json!({ "invoice": 4 })))?;
    {
        let mut undone = tx.savepoint().await?;
        sqlx::query("insert into invoices values (5)").execute(&mut **undone).await?;
        undone.emit((PAID, json!({ "invoice": 5 })))?;
        undone.rollback().await?;
    }
    {
        let mut kept = tx.savepoint().await?;
        sqlx::query("insert into invoices values (6)").execute(&mut **kept).await?;
        kept.emit((PAID, json!({ "invoice": 6 })))?;
        kept.release().await?;
    }
    tx.commit().await?;
    println!("savepoints: 4 and 6 are sent, 5 never was");
    Ok(())
}

/// Code for afterwards: drop a cache entry, answer a client. It runs in this process only, and is
/// lost with it; what must happen belongs into a handler.
fn with_hooks(outbox: &Outbox<SqliteStore>, conn: &mut Connection) -> Result<()> {
    let mut tx = outbox.begin_blocking(&mut *conn)?;
    tx.emit((PAID, json!({ "invoice": 7 })))?;
    tx.after_commit(|| println!("hooks: 7 is committed"));
    tx.after_rollback(|| println!("hooks: never printed"));
    tx.commit()?;

    let mut tx = outbox.begin_blocking(conn)?;
    tx.emit((PAID, json!({ "invoice": 8 })))?;
    tx.after_rollback(|| println!("hooks: 8 is rolled back, since the guard was dropped"));
    drop(tx);
    Ok(())
}

/// Waits for so many deliveries.
async fn hear(deliveries: &mut mpsc::UnboundedReceiver<Delivery>, count: usize) -> Result<()> {
    for _ in 0..count {
        let next = tokio::time::timeout(Duration::from_secs(20), deliveries.recv());
        let delivery = next.await.context("no delivery in time")?.context("nobody delivers")?;
        let way = if delivery.lane() == Some(Lane::Hot) { "from memory" } else { "from the table" };
        println!("  delivered {way}: {}", String::from_utf8_lossy(delivery.payload()));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run().await
}
