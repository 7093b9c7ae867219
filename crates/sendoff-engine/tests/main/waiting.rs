//! What waits uncounted: for a node that has a handler, and for a target; and how that ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::{Handler, HandlerOptions, HandlerResult, Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::{SECOND, commit, row};

const MINUTE: Duration = Duration::from_secs(60);

async fn program(
    store: &MemoryStore,
    event_type: &'static str,
    inbox: &Inbox,
) -> Outbox<MemoryStore> {
    Outbox::builder(store.clone()).on(event_type, inbox.clone()).start().await.unwrap()
}

fn number(event_type: &'static str, number: u32) -> Event {
    Event::json(event_type, &number).unwrap()
}

/// Holds D6: with every setting as it is by default.
#[tokio::test(start_paused = true)]
async fn two_programs_on_one_table_kill_nothing_of_each_other() {
    let (store, ours, theirs) = (MemoryStore::new(), Inbox::new(), Inbox::new());
    let billing = program(&store, "billing", &theirs).await;
    for event in 0..200 {
        commit(&billing, &number("billing", event)).await;
        // Written by one who cannot deliver it, as another language would.
        commit(&billing, &number("shipping", event)).await;
    }
    let late = Event::builder("shipping").delay(40 * MINUTE).json_text("1").build().unwrap();
    commit(&billing, &late).await;
    // A restart that takes its time, beside a program that knows nothing of it.
    sleep(12 * MINUTE).await;
    let shipping = program(&store, "shipping", &ours).await;
    within(90 * SECOND, "what waited is delivered", async || ours.received().len() == 200).await;
    shipping.close().await;
    sleep(35 * MINUTE).await;
    let shipping = program(&store, "shipping", &ours).await;
    within(90 * SECOND, "and what was delayed", async || ours.received().len() == 201).await;
    assert_eq!(theirs.received().len(), 200);
    assert!(store.rows().iter().all(|row| (row.status, row.attempts) == (Status::Done, 0)));
    shipping.close().await;
    billing.close().await;
}

/// Holds D6 and D7: while a node has a handler, others leave its events to it, however long its target is away.
#[tokio::test(start_paused = true)]
async fn an_outage_of_one_program_s_target_is_no_reason_for_another_to_end_its_events() {
    let (store, inbox, away) = (MemoryStore::new(), Inbox::new(), Arc::new(AtomicBool::new(true)));
    let handler = {
        let (inbox, away) = (inbox.clone(), away.clone());
        move |delivery: Delivery| {
            let (inbox, away) = (inbox.clone(), away.clone());
            async move {
                match away.load(Ordering::SeqCst) {
                    true => refused(delivery).await,
                    false => inbox.handle(delivery).await,
                }
            }
        }
    };
    let billing = program(&store, "billing", &Inbox::new()).await;
    let shipping = Outbox::builder(store.clone()).on("shipping", handler).start().await.unwrap();
    for event in 0..500 {
        commit(&billing, &number("shipping", event)).await;
    }
    sleep(120 * MINUTE).await;
    assert!(store.rows().iter().all(|row| row.status != Status::Dead), "after two hours");
    away.store(false, Ordering::SeqCst);
    within(MINUTE, "all are delivered", async || inbox.received().len() == 500).await;
    assert!(store.rows().iter().all(|row| (row.status, row.attempts) == (Status::Done, 0)));
    shipping.close().await;
    billing.close().await;
}

/// Holds D6: a backlog of more than an hour is worked off beside a program that knows nothing of it.
#[tokio::test(start_paused = true)]
async fn a_long_backlog_loses_nothing_to_a_program_that_does_not_know_it() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let slow = {
        let inbox = inbox.clone();
        move |delivery: Delivery| {
            let inbox = inbox.clone();
            async move {
                sleep(4 * SECOND).await;
                inbox.handle(delivery).await
            }
        }
    };
    let writer = Outbox::writer_only(store.clone());
    let mut written = Vec::new();
    for event in 0..1_500 {
        written.push(commit(&writer, &number("shipping", event)).await);
    }
    let options = OutboxOptions { workers: 1, ..OutboxOptions::default() };
    let shipping = Outbox::builder(store.clone()).options(options).on("shipping", slow);
    let shipping = shipping.start().await.unwrap();
    let billing = program(&store, "billing", &Inbox::new()).await;
    sleep(50 * MINUTE).await;
    let marked = store.rows().into_iter().filter(|row| row.waiting.for_handler.is_some());
    assert_eq!(marked.count(), 0, "nobody else touches it");
    sleep(52 * MINUTE).await;
    written.sort_unstable();
    assert_eq!(inbox.ids(), written, "each once");
    assert!(store.rows().iter().all(|row| row.status == Status::Done));
    shipping.close().await;
    billing.close().await;
}

/// Holds D6: the time counts from when a node first found no handler, not from the event's age.
#[tokio::test(start_paused = true)]
async fn what_nobody_handles_is_dead_after_a_quarter_of_an_hour_since_that_was_found() {
    let store = MemoryStore::new();
    let id = commit(&Outbox::writer_only(store.clone()), &number("unheard", 1)).await;
    sleep(600 * MINUTE).await;
    let found = Instant::now();
    let node = program(&store, "other", &Inbox::new()).await;
    within(20 * MINUTE, "it is dead", async || row(&store, id).status == Status::Dead).await;
    let waited = found.elapsed();
    assert!((15 * MINUTE..18 * MINUTE).contains(&waited), "{waited:?}");
    let dead = row(&store, id);
    assert_eq!(dead.attempts, 1);
    let error = dead.last_error.unwrap();
    assert!(error.starts_with("no handler for (__GLOBAL__, unheard)"), "{error}");
    assert!(error.contains("900s"), "it says for how long: {error}");
    node.close().await;
}

async fn refused(_: Delivery) -> HandlerResult {
    Err(io::Error::from(io::ErrorKind::ConnectionRefused))?;
    Ok(())
}

/// Holds D7: waiting has an end, which counts from its beginning, and uses up no attempt.
#[tokio::test(start_paused = true)]
async fn an_event_waits_for_its_target_no_longer_than_it_may() {
    assert_eq!(HandlerOptions::default().unavailable_at_most, Duration::from_secs(7 * 86_400));
    let store = MemoryStore::new();
    let handler = HandlerOptions { unavailable_at_most: 60 * MINUTE, ..HandlerOptions::default() };
    let options = OutboxOptions { handler, ..OutboxOptions::default() };
    let outbox = Outbox::builder(store.clone()).options(options).on("away", refused);
    let outbox = outbox.start().await.unwrap();
    let mut ids: Vec<EventId> = Vec::new();
    for event in 0..8 {
        ids.push(commit(&outbox, &number("away", event)).await);
    }
    let statuses = || ids.iter().map(|id| row(&store, *id).status).collect::<Vec<_>>();
    sleep(55 * MINUTE).await;
    assert!(statuses().iter().all(|status| *status != Status::Dead), "{:?}", statuses());
    let all_dead = async || statuses().iter().all(|status| *status == Status::Dead);
    within(60 * MINUTE, "they are dead", all_dead).await;
    for id in &ids {
        let dead = row(&store, *id);
        assert_eq!(dead.attempts, 0);
        let error = dead.last_error.unwrap();
        assert!(error.starts_with("its target was unavailable for 3"), "{error}");
        assert!(error.ends_with("s: connection refused"), "{error}");
    }
    outbox.close().await;
}
