//! A process of a node that is stopped past its holds, and continued.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Event, EventId, Status};
use sendoff_engine::sink::{Handler, HandlerResult};
use sendoff_engine::store::{InspectStore, OutboxStore, Row};
use sendoff_engine::{Counters, Outbox, OutboxOptions, RetryOptions};

use crate::acceptance::Inbox;
use crate::process::{Node, say};
use crate::wait::within;

const PLENTY: Duration = Duration::from_secs(60);

/// Holds that run out while a test waits for it.
pub fn options() -> OutboxOptions {
    OutboxOptions {
        poll_interval: Duration::from_millis(50),
        hold: Duration::from_millis(600),
        hot_grace: Duration::from_millis(600),
        retry: RetryOptions { max_attempts: 3, ..RetryOptions::default() },
        ..OutboxOptions::default()
    }
}

/// What the node does until it is fenced: its handler runs.
pub async fn play<S: OutboxStore + 'static>(store: S, handler: impl Handler) {
    let counters = Arc::new(Counters::default());
    let outbox = Outbox::builder(store)
        .options(options())
        .metrics(counters.clone())
        .on(super::EVENT, handler)
        .start()
        .await
        .unwrap();
    within(PLENTY, "a fence", async || counters.values().fenced > 0).await;
    say("fenced");
    drop(outbox);
}

/// Waits for a line of whoever started this process.
///
/// # Errors
///
/// Where standard input cannot be read.
pub async fn wait_for_line() -> HandlerResult {
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}

async fn row(store: &impl InspectStore, id: EventId) -> Row {
    store.find(id).await.unwrap().unwrap()
}

/// Fault 11: stopped past its hold and continued, it finds the row settled by another. It
/// [plays](play), says that it `began`, and [waits](wait_for_line).
pub async fn a_stopped_process_cannot_settle_what_it_lost<S>(
    store: &S,
    other: S,
    event: &Event,
    zombie: &mut Node,
) where
    S: OutboxStore + 'static,
{
    zombie.says("began");
    zombie.signal("-STOP");
    let inbox = Inbox::new();
    let other = Outbox::builder(other).options(options()).on(super::EVENT, inbox.clone());
    let other = other.start().await.unwrap();
    let done = async || row(store, event.id()).await.status == Status::Done;
    within(PLENTY, "another to take over", done).await;
    let settled = row(store, event.id()).await;
    assert_eq!((inbox.received().len(), settled.attempts), (1, 1), "the loss was counted");

    zombie.signal("-CONT");
    zombie.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    zombie.says("fenced");
    let after = row(store, event.id()).await;
    assert_eq!((after.status, after.done_at), (settled.status, settled.done_at));
    other.close().await;
}
