//! A handler or a sink that gets no more events than a rate allows.

use std::num::NonZeroU32;
use std::time::Duration;

use sendoff_core::{Event, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::sink::BatchSink;
use sendoff_engine::{CircuitOptions, Outbox, OutboxOptions, Rate, RetryOptions, paced};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::Instant;

use super::{EVENT, SECOND, commit, fill, options};

const GENTLE: &str = "gentle";

/// Ten in a second, and five together.
fn rate() -> Rate {
    let number = |number| NonZeroU32::new(number).unwrap();
    Rate::per_second(number(10)).with_burst(number(5))
}

/// After five together each of the others is a tenth of a second after the one before.
fn takes(events: u32) -> Duration {
    SECOND / 10 * (events - 5)
}

async fn all_arrive(inbox: &Inbox, events: u32, begun: Instant) {
    let count = usize::try_from(events).unwrap();
    within(60 * SECOND, "all of them", async || inbox.received().len() == count).await;
    let took = begun.elapsed();
    assert!((takes(events)..takes(events) + SECOND).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_events_at_its_rate_and_nobody_waits_with_it() {
    let (store, gentle, other) = (MemoryStore::new(), Inbox::new(), Inbox::new());
    fill(&store, GENTLE, 205).await;
    let begun = Instant::now();
    let outbox = Outbox::builder(store.clone()).options(options());
    let outbox = outbox.on(GENTLE, paced(rate(), gentle.clone())).on(EVENT, other.clone());
    let outbox = outbox.start().await.unwrap();
    for number in 0..100 {
        let id = commit(&outbox, &Event::json(EVENT, &number).unwrap()).await;
        let delivered = async || other.received().iter().any(|one| one.id() == id);
        within(SECOND / 10, "another handler's event", delivered).await;
    }
    all_arrive(&gentle, 205, begun).await;
    within(SECOND, "to be settled", async || {
        store.rows().iter().all(|row| row.status == Status::Done)
    })
    .await;
    assert!(store.rows().iter().all(|row| row.attempts <= 1), "nothing is tried twice");
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn of_a_sinks_batch_as_many_go_as_have_a_place_and_the_others_come_again() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    fill(&store, GENTLE, 105).await;
    let begun = Instant::now();
    let taken = inbox.clone();
    let sink = BatchSink::new(GENTLE, move |events: Vec<_>| {
        let taken = taken.clone();
        async move {
            for event in events {
                sendoff_engine::Handler::handle(&taken, event).await?;
            }
            Ok(())
        }
    });
    let outbox = Outbox::builder(store.clone()).options(options());
    let outbox = outbox.on_sink(GENTLE, paced(rate(), sink)).start().await.unwrap();
    all_arrive(&inbox, 105, begun).await;
    outbox.close().await;
    let rows = store.rows();
    assert!(rows.iter().all(|row| row.status == Status::Done && row.attempts <= 1));
}

/// Whoever waited for longer than a run may take has taken no place from the others, however often that is.
#[tokio::test(start_paused = true)]
async fn runs_that_stop_waiting_leave_no_place_empty() {
    let (store, gentle) = (MemoryStore::new(), Inbox::new());
    fill(&store, GENTLE, 60).await;
    let mut impatient = OutboxOptions { workers: 8, ..options() };
    impatient.handler.timeout = Some(2 * SECOND);
    impatient.handler.circuit = CircuitOptions::off();
    impatient.retry = RetryOptions { max_attempts: 1_000, base: SECOND / 10, max: SECOND / 10 };
    let one = Rate::per_second(NonZeroU32::MIN);
    let outbox = Outbox::builder(store.clone()).options(impatient);
    let outbox = outbox.on(GENTLE, paced(one, gentle.clone())).start().await.unwrap();
    tokio::time::sleep(50 * SECOND).await;
    let arrived = gentle.received().len();
    assert!((40..=51).contains(&arrived), "{arrived} in 50 seconds");
    outbox.close().await;
}
