//! What follows when a handler fails: retries, waits it asks for, and dead letters.
//!
//! `cargo run -p sendoff --example retries_and_dead_letters --features sqlite`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use sendoff::options::RetryOptions;
use sendoff::retry::Linear;
use sendoff::sqlite::SqliteStore;
use sendoff::store::{InspectStore, Row};
use sendoff::{
    Delivery, EventId, EventType, Failure, HandlerResult, Outbox, OutboxOptions, Status,
};
use serde_json::json;

#[derive(EventType)]
#[event_type(rename_all = "kebab-case")]
enum Mail {
    /// Fails twice, then succeeds.
    Flaky,
    /// The target asks to be left alone for a while.
    Throttled,
    /// The target is unavailable: not the event's fault, so no attempt is used up.
    AwayForAWhile,
    /// Can never succeed, and the handler knows it.
    NoSuchAddress,
    /// Fails every time, until somebody repairs the target.
    Broken,
}

async fn flaky(delivery: Delivery) -> HandlerResult {
    if delivery.attempt < 3 {
        // Any error is retried after the policy's delay.
        Err("connection reset")?;
    }
    Ok(())
}

async fn throttled(delivery: Delivery) -> HandlerResult {
    if delivery.attempt == 1 {
        return Err(Failure::retry_after(Duration::from_millis(300), "429: come back later"));
    }
    Ok(())
}

async fn no_such_address(_: Delivery) -> HandlerResult {
    Err(Failure::dead("550: no such address"))
}

pub(crate) async fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("mail.db")).await?;
    let was_away = AtomicBool::new(false);
    let repaired = Arc::new(AtomicBool::new(false));

    let options = OutboxOptions {
        retry: RetryOptions { max_attempts: 3, ..RetryOptions::default() },
        ..OutboxOptions::default()
    };
    let outbox = Outbox::builder(store.clone())
        .options(options)
        // The default doubles from 200 ms to 60 s with jitter; a demonstration is less patient.
        .retry(Linear { step: Duration::from_millis(50), ..Linear::default() })
        .on(Mail::Flaky, flaky)
        .on(Mail::Throttled, throttled)
        .on(Mail::AwayForAWhile, move |_: Delivery| {
            let away = !was_away.swap(true, Ordering::SeqCst);
            async move {
                let pause = Duration::from_millis(100);
                if away { Err(Failure::unavailable(pause, "connection refused")) } else { Ok(()) }
            }
        })
        .on(Mail::NoSuchAddress, no_such_address)
        .on(Mail::Broken, {
            let repaired = repaired.clone();
            move |_: Delivery| {
                let works = repaired.load(Ordering::SeqCst);
                async move { if works { Ok(()) } else { Err("certificate expired".into()) } }
            }
        })
        .start()
        .await?;

    let mut conn = store.connect()?;
    let mut tx = outbox.begin_blocking(&mut conn)?;
    let mut mails = Vec::new();
    for mail in
        [Mail::Flaky, Mail::Throttled, Mail::AwayForAWhile, Mail::NoSuchAddress, Mail::Broken]
    {
        mails.push(tx.emit((mail, json!({ "to": "you@example.org" })))?);
    }
    tx.commit()?;

    until_nothing_is_owed(&store).await?;
    println!("{:<16} {:<6} {:>8}  last error", "event", "status", "attempts");
    let mut ends = Vec::new();
    for &id in &mails {
        let row = stands(&store, id).await?;
        let error = row.last_error.as_deref().unwrap_or("");
        println!(
            "{:<16} {:<6} {:>8}  {error}",
            row.event.event_type(),
            format!("{:?}", row.status),
            row.attempts
        );
        ends.push((row.status, row.attempts));
    }
    // `attempts` counts failures: a success leaves it, and the last error, as they were.
    assert_eq!(
        ends,
        [
            (Status::Done, 2),
            (Status::Done, 1),
            (Status::Done, 0),
            (Status::Dead, 1),
            (Status::Dead, 3)
        ]
    );

    // A dead row stays as it is until somebody decides. There is no requeue command yet; one
    // statement does it, and the poller finds the row as if it were new.
    repaired.store(true, Ordering::SeqCst);
    let broken = mails[4];
    conn.execute(
        "update outbox_event
            set status = 0, attempts = 0, due_at = cast(unixepoch('subsec') * 1000000 as integer)
          where event_id = ?1 and status = 3",
        [broken.as_bytes()],
    )?;
    outbox.poll().await?;
    until_nothing_is_owed(&store).await?;
    let row = stands(&store, broken).await?;
    println!("{} after the repair: {:?}", row.event.event_type(), row.status);
    assert_eq!(row.status, Status::Done);

    outbox.close().await;
    store.close().await;
    Ok(())
}

async fn stands(store: &SqliteStore, id: EventId) -> Result<Row> {
    store.find(id).await?.context("every event has a row")
}

async fn until_nothing_is_owed(store: &SqliteStore) -> Result<()> {
    let settled = async {
        while store.counts().await?.pending() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(20), settled).await.context("still owed")?
}

#[tokio::main]
async fn main() -> Result<()> {
    run().await
}
