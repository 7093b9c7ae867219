//! Two processes on one PostgreSQL: one writes, the other delivers, until SIGTERM ends both in order.
//!
//! `cargo xtask example writer_and_worker` shows it all: it starts itself twice, as `write` and as `work`, waits for a
//! hundred events, and sends both of them SIGTERM. With a server of yours, in two terminals:
//!
//! ```text
//! export DATABASE_URL=postgres://app@localhost/shop
//! cargo run -p sendoff --example writer_and_worker --features postgres-sqlx -- work
//! cargo run -p sendoff --example writer_and_worker --features postgres-sqlx -- write
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sendoff::postgres::PostgresStore;
use sendoff::{Delivery, HandlerResult, Outbox};
use sqlx::PgPool;
use tokio::signal::unix::{SignalKind, signal};

/// Whoever runs in a container is told to stop like this.
async fn terminated() -> Result<()> {
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

async fn store(url: &str) -> Result<PostgresStore> {
    let store = PostgresStore::connect(url).await?;
    store.migrate().await?; // two at once do no harm
    Ok(store)
}

/// Writes ten orders a second. It has no handlers, and no tasks: what it writes is for others.
async fn write(url: &str) -> Result<()> {
    let (store, pool) = (store(url).await?, PgPool::connect(url).await?);
    sqlx::query("create table if not exists orders (number bigint)").execute(&pool).await?;
    let outbox = Outbox::writer_only(store.clone());
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let writing = async {
        for number in 1_i64.. {
            ticks.tick().await;
            let mut tx = outbox.begin(&pool).await?;
            sqlx::query("insert into orders values ($1)").bind(number).execute(&mut **tx).await?;
            tx.emit(("order.placed", format!("{number}").as_str()))?;
            tx.commit().await?;
            println!("wrote {number}");
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ended = writing => ended?,
        // A transaction that is not committed is rolled back, with its event.
        stopped = terminated() => stopped?,
    }
    store.close().await;
    println!("the writer ended in order");
    Ok(())
}

/// Delivers what the other process writes. On PostgreSQL it is woken by each commit while it sleeps.
async fn work(url: &str) -> Result<()> {
    let store = store(url).await?;
    let handler = |delivery: Delivery| async move {
        println!("delivered {}", delivery.read_json::<i64>()?);
        HandlerResult::Ok(())
    };
    let outbox = Outbox::builder(store.clone()).on("order.placed", handler).start().await?;
    terminated().await?;
    let closed = outbox.close().await; // finishes what runs, releases the rest to others
    ensure!(!closed.cut_off && !closed.unsettled, "{closed:?}");
    store.close().await;
    println!("the worker ended in order");
    Ok(())
}

/// One of the two, for whoever is this process.
pub(crate) async fn play(role: &str, url: &str) -> Result<()> {
    match role {
        "write" => write(url).await,
        _ => work(url).await,
    }
}

/// Both of them, each a process that `start` makes, until so many events were delivered.
pub(crate) fn show(start: impl Fn(&str) -> Command, events: usize) -> Result<()> {
    let start = |role| -> Result<Child> { Ok(start(role).stdout(Stdio::piped()).spawn()?) };
    let (mut writer, mut worker) = (start("write")?, start("work")?);
    let mut said = BufReader::new(worker.stdout.take().context("it has one")?).lines();
    let delivered =
        said.by_ref().map_while(Result::ok).filter(|line| line.starts_with("delivered"));
    delivered.take(events).for_each(|line| println!("worker: {line}"));
    for process in [&writer, &worker] {
        let id = process.id().to_string();
        ensure!(Command::new("kill").args(["-TERM", &id]).status()?.success(), "kill {id}");
    }
    let rest: Vec<_> = said.map_while(Result::ok).collect();
    ensure!(writer.wait()?.success() && worker.wait()?.success(), "both end in order");
    ensure!(rest.iter().any(|line| line == "the worker ended in order"), "{rest:?}");
    println!("both ended in order");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    if let Some(role) = std::env::args().nth(1) {
        return play(&role, &url).await;
    }
    let program = std::env::current_exe()?;
    let this_as = |role: &str| {
        let mut command = Command::new(&program);
        command.arg(role);
        command
    };
    show(this_as, 100)
}
