//! What an event is when little is said of it, and that it stays what it is.

use std::time::Duration;

use sendoff_core::{Delivery, Event, GLOBAL_AGGREGATE, Lane, Origin, StoredEvent, Timestamp};

/// Holds E3.
#[test]
fn an_event_happened_now_globally_and_without_headers_unless_told() {
    let before = Timestamp::now();
    let event = Event::builder("x").bytes("payload").build().unwrap();
    assert!((before..=Timestamp::now()).contains(&event.occurred_at()));
    assert_eq!(event.aggregate_type(), "__GLOBAL__");
    assert_eq!(event.aggregate_type(), GLOBAL_AGGREGATE);
    assert!(event.headers().is_empty());
    assert_eq!((event.aggregate_id(), event.tenant_id(), event.ordering_key()), (None, None, None));
}

/// Holds E3.
#[test]
fn what_is_said_replaces_the_default() {
    let at = Timestamp::from_micros(42);
    let event = Event::builder("x")
        .occurred_at(at)
        .aggregate("order", "4711")
        .header("source", "shop")
        .bytes("payload")
        .build()
        .unwrap();
    assert_eq!(event.occurred_at(), at);
    assert_eq!((event.aggregate_type(), event.aggregate_id()), ("order", Some("4711")));
    assert_eq!(event.headers().iter().collect::<Vec<_>>(), [("source", "shop")]);
}

/// Holds E3. The clock is read when the event is made, not when the builder is.
#[test]
fn a_builder_kept_for_later_does_not_fix_the_time() {
    let builder = Event::builder("x").bytes("payload");
    let started = Timestamp::now();
    while Timestamp::now() == started {}
    assert!(builder.build().unwrap().occurred_at() > started);
}

/// Holds E8.
#[test]
fn the_tenant_is_kept_and_handed_to_whoever_handles_the_event() {
    let written = Event::builder("x").tenant_id("acme").bytes("payload").build().unwrap();
    let stored: StoredEvent = written.as_ref().clone();
    assert_eq!(stored.tenant_id.as_deref(), Some("acme"));
    let delivery = Delivery {
        event: Event::restore(stored).unwrap(),
        created_at: Timestamp::now(),
        attempt: 1,
        origin: Origin::Row(Lane::Cold),
    };
    assert_eq!(delivery.tenant_id(), Some("acme"));
}

/// Holds E6.
#[test]
fn every_field_survives_being_stored() {
    let written = Event::builder("order.placed")
        .aggregate("order", "4711")
        .tenant_id("acme")
        .ordering_key("4711")
        .header("source", "shop")
        .occurred_at(Timestamp::from_micros(1))
        .bytes("payload")
        .content_type("text/plain")
        .build()
        .unwrap();
    let restored = Event::restore(written.as_ref().clone()).unwrap();
    assert_eq!(restored, written);
    assert_eq!(restored.shard(), written.shard());
}

#[test]
fn a_row_without_a_type_is_no_event_and_the_column_is_named() {
    let mut stored = Event::json("x", "payload").unwrap().as_ref().clone();
    stored.event_type.clear();
    assert_eq!(Event::restore(stored).unwrap_err().field, "event_type");
}

/// Limits may have been wider when the row was written; it must still be delivered.
#[test]
fn a_stored_event_is_not_held_to_todays_limits() {
    let mut stored = Event::json("x", "payload").unwrap().as_ref().clone();
    stored.event_type = "x".repeat(1_000);
    let restored = Event::restore(stored).unwrap();
    assert_eq!(restored.event_type().len(), 1_000);
    assert_eq!(restored.delay(), Duration::ZERO);
}
