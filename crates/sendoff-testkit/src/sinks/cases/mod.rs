//! What every sink promises, one function for each.
#![allow(clippy::missing_panics_doc, reason = "a case that panics is a sink that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

mod close;
mod deliver;
mod refuse;
mod server;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::{Fact, Position, Recorded, Tags};
use sendoff_core::{
    Delivery, Event, EventBuilder, EventId, Failure, FailureClass, Lane, Origin, Sink, Timestamp,
    Verdict,
};
use tokio::time::{Instant, sleep};

use super::ground::{Arrived, SinkGround};

pub use close::*;
pub use deliver::*;
pub use refuse::*;
pub use server::*;

const EVENT: &str = "order.placed";
/// How long anything may take that has to come about.
const PLENTY: Duration = Duration::from_secs(60);
/// What may pass beyond a deadline on a busy machine.
const SLACK: Duration = Duration::from_secs(5);

fn builder() -> EventBuilder {
    Event::builder(EVENT).ordering_key("key").header("region", "eu").aggregate("order", "4711")
}

fn event(number: usize) -> Event {
    builder().json(&number).build().unwrap()
}

fn delivery(event: &Event) -> Delivery {
    let origin = Origin::Row(Lane::Cold);
    Delivery { event: event.clone(), created_at: Timestamp::now(), attempt: 1, origin }
}

/// A fact of this event, whatever is in it.
fn fact(position: u64, event: Event) -> Delivery {
    let fact = Fact::restore(event, Tags::default(), None, None);
    let position = Position::new(position).unwrap();
    let recorded = Recorded { position, recorded_at: Timestamp::now(), fact };
    Delivery::of_fact(&Arc::new(recorded), 1)
}

fn batch(events: usize) -> Vec<Delivery> {
    (0..events).map(|number| delivery(&event(number))).collect()
}

/// One verdict for each, whatever they are.
async fn deliver(sink: &impl Sink, deliveries: &[Delivery]) -> Vec<Verdict> {
    let verdicts = tried(sink, deliveries).await;
    assert_eq!(verdicts.len(), deliveries.len(), "one verdict for each event");
    verdicts
}

/// One verdict for each that was tried: of facts, those may be left out that wait for one before them.
async fn tried(sink: &impl Sink, deliveries: &[Delivery]) -> Vec<Verdict> {
    let verdicts = sink.deliver(deliveries).await;
    assert!((1..=deliveries.len()).contains(&verdicts.len()), "at least one was tried");
    verdicts
}

/// All of them done.
async fn delivered(sink: &impl Sink, deliveries: &[Delivery]) {
    for verdict in deliver(sink, deliveries).await {
        verdict.unwrap_or_else(|failure| panic!("not delivered: {failure}"));
    }
}

fn is_unavailable(failure: &Failure) -> bool {
    matches!(failure.class(), FailureClass::Unavailable { .. })
}

/// What an engine does: delivers again what was not done, while the sink is healthy, until all of it is. Nothing of that may
/// use up an attempt.
async fn delivered_at_last(sink: &impl Sink, deliveries: &[Delivery]) {
    let begun = Instant::now();
    let mut left = deliveries.to_vec();
    // What a test that fails here should say: how often it was tried, what was answered, and how it is.
    let (mut tries, mut told) = (0, String::from("nothing"));
    while !left.is_empty() {
        let is_healthy = sink.is_healthy();
        // Its target may be killed three times meanwhile, and a busy machine takes long to start some of them.
        assert!(
            begun.elapsed() < PLENTY * 4,
            "{} events are not delivered after {tries} tries; healthy: {is_healthy}; answered last: {told}",
            left.len()
        );
        if !is_healthy {
            sleep(Duration::from_millis(10)).await;
            continue;
        }
        tries += 1;
        let verdicts = tried(sink, &left).await;
        let mut verdicts = verdicts.into_iter();
        left.retain(|_| match verdicts.next() {
            Some(Ok(())) => false,
            None => true,
            Some(Err(failure)) => {
                assert!(is_unavailable(&failure), "an attempt was used up: {failure:?}");
                told = failure.report();
                true
            }
        });
    }
}

/// How often each arrived.
fn counted(arrived: &[Arrived]) -> HashMap<EventId, usize> {
    let mut counts = HashMap::new();
    arrived.iter().for_each(|arrived| *counts.entry(arrived.id).or_default() += 1);
    counts
}

/// All of these are there, none but these, each with its own bytes; more than once only where that may be.
async fn there<G: SinkGround>(ground: &G, deliveries: &[Delivery], once: bool) {
    let arrived = ground.arrived().await;
    let counts = counted(&arrived);
    let known: HashMap<_, _> =
        deliveries.iter().map(|delivery| (delivery.id(), delivery)).collect();
    let missing = known.keys().filter(|id| !counts.contains_key(id)).count();
    assert_eq!(missing, 0, "so many were lost of {}", deliveries.len());
    for event in &arrived {
        let delivery = known.get(&event.id).expect("nothing arrives that was not delivered");
        assert!(event.payload == delivery.payload()[..], "an event arrives with its own bytes");
    }
    if once || ground.drops_duplicates() {
        assert_eq!(arrived.len(), deliveries.len(), "none arrives twice");
    }
}
