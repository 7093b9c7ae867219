//! Whatever code of others does, nobody else stands still; and what is ours begins again.

use std::fmt;
use std::panic::panic_any;
use std::sync::Arc;

use sendoff_core::{BoxError, Delivery, Failure, Status, Stopped};
use sendoff_engine::journal::publish::Publishing;
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions};
use sendoff_engine::sink::BatchSink;
use sendoff_engine::{
    After, Before, CircuitOptions, HandlerOptions, HandlerResult, Outbox, OutboxOptions,
    RetryOptions,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::{eventually, within};

use super::{EVENT, SECOND, fill, options};
use crate::flaky::Flaky;

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic_any("dropped");
        }
    }
}

/// An error that cannot be printed, nor dropped.
#[derive(Debug)]
struct Unspeakable(#[allow(dead_code, reason = "it is dropped")] Bomb);

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic_any("printed");
    }
}

impl std::error::Error for Unspeakable {}

impl fmt::Debug for Bomb {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic_any("debugged");
    }
}

fn unspeakable() -> Unspeakable {
    Unspeakable(Bomb)
}

async fn hang_with_a_bomb(_: Delivery) -> HandlerResult {
    let _bomb = Bomb;
    std::future::pending().await
}

async fn fail_unspeakably(_: Delivery) -> HandlerResult {
    Err(unspeakable().into())
}

fn failed_once(store: &MemoryStore, event_type: &str, error: &str) -> bool {
    let mut rows = store.rows().into_iter().filter(|row| row.event.event_type() == event_type);
    rows.all(|row| row.status == Status::Dead && row.last_error.as_deref() == Some(error))
}

/// Ten events for four workers: each costs its attempt, and none a worker.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_when_it_is_dropped_at_its_timeout_kills_no_worker() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let limits = OutboxOptions {
        handler: HandlerOptions {
            timeout: Some(SECOND),
            circuit: CircuitOptions::off(),
            ..HandlerOptions::default()
        },
        retry: RetryOptions { max_attempts: 1, ..RetryOptions::default() },
        ..options()
    };
    let outbox = Outbox::builder(store.clone())
        .options(limits)
        .on("bomb", hang_with_a_bomb)
        .on("error", fail_unspeakably)
        .on(EVENT, inbox.clone())
        .start()
        .await
        .unwrap();
    for event_type in ["bomb", "error", EVENT] {
        fill(&store, event_type, 10).await;
    }
    within(60 * SECOND, "the others", async || inbox.received().len() == 10).await;
    let ended = async || {
        failed_once(&store, "bomb", "handler did not finish within 1s")
            && failed_once(&store, "error", "panicked: printed")
    };
    within(60 * SECOND, "the bad ones to be dead", ended).await;
    assert_eq!(outbox.restarts(), 0);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn interceptors_whose_errors_cannot_be_printed_kill_no_worker() {
    let inbox = Inbox::new();
    let outbox = Outbox::builder(MemoryStore::new())
        .options(OutboxOptions {
            retry: RetryOptions { max_attempts: 1, ..RetryOptions::default() },
            ..options()
        })
        .intercept(After(|_: &Delivery, _: Option<&Failure>| {
            Err(Box::new(unspeakable()) as BoxError)
        }))
        .intercept(Before(|delivery: &Delivery| match delivery.event_type() {
            "refused" => Err(Failure::retry(unspeakable())),
            _ => Ok(()),
        }))
        .on(EVENT, inbox.clone())
        .start()
        .await
        .unwrap();
    fill(outbox.store(), "refused", 10).await;
    fill(outbox.store(), EVENT, 10).await;
    within(60 * SECOND, "the others", async || inbox.received().len() == 10).await;
    let refused = async || failed_once(outbox.store(), "refused", "panicked: printed");
    within(60 * SECOND, "the refused ones to be dead", refused).await;
    assert_eq!(outbox.restarts(), 0);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_outlives_whatever_its_handlers_and_their_errors_do() {
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let (store, inbox) = (MemoryStore::new(), Inbox::new());
        for event_type in ["bomb", "error", EVENT] {
            fill(&store, event_type, 10).await;
        }
        let (good, limit) = (inbox.clone(), Some(SECOND));
        let limits = RelayOptions {
            handler: HandlerOptions {
                timeout: limit,
                circuit: CircuitOptions::off(),
                ..HandlerOptions::default()
            },
            retry: RetryOptions { max_attempts: 1, ..RetryOptions::default() },
            mode,
            ..RelayOptions::default()
        };
        let relay = Relay::builder(store.clone())
            .options(limits)
            .classify(|_, failure| failure.class())
            .on_failure(|_, failure| panic_any(failure.report()))
            .build(move |delivery: Delivery| {
                let good = good.clone();
                async move {
                    match delivery.event_type() {
                        "bomb" => hang_with_a_bomb(delivery).await,
                        "error" => fail_unspeakably(delivery).await,
                        _ => sendoff_engine::Handler::handle(&good, delivery).await,
                    }
                }
            })
            .unwrap();
        let over = async || {
            failed_once(&store, "bomb", "handler did not finish within 1s")
                && failed_once(&store, "error", "panicked: printed")
        };
        relay.run(within(120 * SECOND, "all to end", over)).await;
        assert_eq!((inbox.received().len(), relay.restarts()), (10, 0), "{mode:?}");
    }
}

/// Its pair is not busy for ever.
#[tokio::test(start_paused = true)]
async fn a_publisher_whose_error_cannot_be_printed_is_tried_again() {
    let journal = Journal::new(MemoryJournal::new());
    let everything = sendoff_core::journal::Topic::builder("everything").build().unwrap();
    journal.append([sendoff_core::journal::Fact::builder(("moved", "{}"))]).await.unwrap();
    let runs = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = runs.clone();
    let publisher = BatchSink::new("wild", move |_| {
        let run = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            match run {
                0 => Err(Stopped::after(0, Failure::retry(unspeakable()))),
                _ => Ok(()),
            }
        }
    });
    let node = Publishing::builder(&journal).pair(&everything, Arc::new(publisher)).start().await;
    let node = node.unwrap();
    let again = async || runs.load(std::sync::atomic::Ordering::SeqCst) >= 2;
    within(60 * SECOND, "another try", again).await;
    node.close().await;
}

/// A mistake of ours ends no stage for good, and is counted.
#[tokio::test(start_paused = true)]
async fn stages_that_panic_are_begun_again() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    store.panic_once(&["claim", "settle", "confirm", "settle"]);
    let outbox =
        Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    fill(&store.table, EVENT, 20).await;
    let done = async || store.table.rows().iter().all(|row| row.status == Status::Done);
    within(120 * SECOND, "all to be done", done).await;
    assert!(outbox.restarts() >= 3, "{}", outbox.restarts());
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_whose_workers_panic_goes_on() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    store.panic_once(&["claim"; 9]);
    fill(&store.table, EVENT, 20).await;
    let relay = Relay::builder(store.clone()).build(inbox.clone()).unwrap();
    relay.run(eventually("the work", async || inbox.received().len() == 20)).await;
    assert_eq!(relay.restarts(), 9);
}
