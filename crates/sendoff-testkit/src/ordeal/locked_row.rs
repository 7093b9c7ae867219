//! A row that somebody has locked, beside busy nodes.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Event, Status};
use sendoff_engine::Outbox;
use sendoff_engine::store::{Birth, InspectStore, NewRow};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::node::outbox_options;
use super::{EVENT, OrdealHarness};
use crate::history::{Entry, Expectations, Fault, FaultKind, History, check};
use crate::soak;
use crate::wait::within;

const PLENTY: Duration = Duration::from_secs(60);
const NODES: [&str; 2] = ["a", "b"];
const EVENTS: u32 = 2_000;
/// How many are written at once.
const PART: u32 = 50;
/// Everybody but the locked one is done so soon after it was written.
const SOON: Duration = Duration::from_secs(5);

/// Somebody locks one row that a node holds, beside two nodes and 2,000 events: all others are done
/// within 5 s of being written, and the row itself ends when it is free. Nothing is delivered twice.
pub async fn one_locked_row_delays_itself_only(harness: &impl OrdealHarness) {
    let lasts = soak::lasting(Duration::from_secs(6), Duration::from_secs(60));
    let history = History::new();
    let (began, go_on) = (Arc::new(Notify::new()), CancellationToken::new());
    let victim = Event::json(EVENT, "locked").unwrap();
    let mut nodes = Vec::new();
    for name in NODES {
        let (history, began, go_on) = (history.clone(), began.clone(), go_on.clone());
        let victim = victim.id();
        let handler = move |delivery: Delivery| {
            let run = history.delivery_started(name, &delivery);
            let (began, go_on) = (began.clone(), go_on.clone());
            async move {
                if delivery.id() == victim {
                    began.notify_one();
                    go_on.cancelled().await;
                }
                run.finished(true);
                Ok(())
            }
        };
        let builder = Outbox::builder(harness.store().await).options(outbox_options());
        nodes.push(builder.on(EVENT, handler).start().await.unwrap());
    }
    let store = harness.store().await;
    let due = |event: Event| NewRow { event, birth: Birth::Due };
    history.committed(&victim);
    harness.write(&store, &[due(victim.clone())]).await;
    tokio::time::timeout(PLENTY, began.notified()).await.expect("a node takes it");

    history.fault(Fault::everywhere(FaultKind::RowsLocked).of([victim.id()]));
    let lock = harness.lock_row(victim.id()).await;
    go_on.cancel();
    let locked_at = Instant::now();
    let mut others = Vec::new();
    for part in 0..EVENTS / PART {
        sleep_until(locked_at + lasts * part / (EVENTS / PART)).await;
        let events: Vec<_> = (0..PART).map(|n| Event::json(EVENT, &n).unwrap()).collect();
        events.iter().for_each(|event| history.committed(event));
        let rows: Vec<_> = events.iter().cloned().map(due).collect();
        harness.write(&store, &rows).await;
        others.extend(events);
    }
    sleep_until(locked_at + lasts).await;
    assert!(store.find(victim.id()).await.unwrap().unwrap().status.is_pending(), "it was locked");
    history.fault(Fault::everywhere(FaultKind::RowsUnlocked).of([victim.id()]));
    lock.release().await;

    let over = async || store.counts().await.unwrap().pending() == 0;
    within(PLENTY, "everything to end", over).await;
    for node in &nodes {
        node.close().await;
    }
    let mut slowest = Duration::ZERO;
    for event in &others {
        let row = store.find(event.id()).await.unwrap().expect("delivered rows are kept");
        assert_eq!((row.status, row.attempts), (Status::Done, 0), "{}", event.id());
        slowest = slowest.max(row.done_at.unwrap().since(row.created_at));
    }
    let row = store.find(victim.id()).await.unwrap().unwrap();
    history.stands(victim.id(), row.status, row.attempts);
    let expected = Expectations { healed: true, ..Expectations::default() };
    let verdict = check(&history, &expected);
    // Its hold is over long before its lock is, and yet whoever has run it settles it: nobody else is
    // quicker than who waits for the row.
    let on = |node: &str| {
        let entries = history.entries().into_iter();
        let starts = |entry: &Entry| matches!(entry, Entry::Started { node: on, id, .. } if **on == *node && *id == victim.id());
        entries.filter(starts).count()
    };
    let runs = NODES.map(on);
    // For people, who read it in a soak.
    let said = format!(
        "a row locked for {lasts:?}, run {runs:?} times, the slowest of the others {slowest:?}"
    );
    let _ = writeln!(std::io::stderr(), "{said}; {verdict}");
    assert!(slowest <= SOON && runs.iter().sum::<usize>() == 1, "{said}");
    assert!(verdict.is_clean(), "{verdict}");
}
