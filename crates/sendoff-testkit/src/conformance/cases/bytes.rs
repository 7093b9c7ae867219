//! Payloads, headers and texts come back as they were written.

use std::collections::BTreeMap;

use sendoff_core::limits::{AGGREGATE_ID_CHARS, EVENT_TYPE_CHARS, PAYLOAD_BYTES, TENANT_ID_CHARS};
use sendoff_core::{Event, EventId, Timestamp};
use sendoff_engine::store::Claimed;

use crate::conformance::probe::due;
use crate::conformance::{Probe, StoreHarness};

/// Writes the events and compares what `find` and `claim` give back.
async fn assert_round_trip<H: StoreHarness>(probe: &Probe<H>, events: Vec<Event>) {
    let rows: Vec<_> = events.iter().cloned().map(due).collect();
    probe.commit(&rows).await;
    for event in &events {
        let found = probe.row(event.id()).await.event;
        assert!(found.as_ref() == event.as_ref(), "{event:?} was found as {found:?}");
    }
    let mut claimed = BTreeMap::new();
    while claimed.len() < events.len() {
        let mut batch = probe.claim_all("node").await;
        batch.extend(probe.take_runs("node").await);
        assert!(!batch.is_empty(), "{} of {} rows were claimed", claimed.len(), events.len());
        let event = |row: Claimed| (row.id, row.event.expect("it was an event"));
        claimed.extend(batch.into_iter().map(event));
    }
    for event in &events {
        let claimed = &claimed[&event.id()];
        assert!(claimed.as_ref() == event.as_ref(), "{event:?} was claimed as {claimed:?}");
    }
}

/// Names, tenant, headers and times come back to the character. Holds E6 and E8.
pub async fn every_field_comes_back_as_it_was_written<H: StoreHarness>(probe: &Probe<H>) {
    let build = |builder: sendoff_core::EventBuilder| builder.build().expect("within the limits");
    let odd = r#"'; drop table "outbox_event"; -- \ % _ $1 ? {} "#;
    let events = vec![
        build(Event::builder("bare").bytes("")),
        build(
            Event::builder("a.b:c/d")
                .aggregate(odd, odd)
                .tenant_id(odd)
                .ordering_key(odd)
                .header(odd, odd)
                .header("empty", "")
                .header("wide", "\u{1F980} \u{0301} \u{202E} \t \u{1}")
                .content_type("text/plain; charset=\"utf-8\"")
                .occurred_at(Timestamp::from_micros(1_234_567_890_123_457))
                .json_text("{}"),
        ),
        build(
            Event::builder("\u{1F980}".repeat(EVENT_TYPE_CHARS))
                .aggregate_id("\u{e9}".repeat(AGGREGATE_ID_CHARS))
                .tenant_id("\u{4e2d}".repeat(TENANT_ID_CHARS))
                .occurred_at(Timestamp::from_micros(-1))
                .json_text("[]"),
        ),
        // Upper and lower case, and trailing spaces, are not the same to everyone.
        build(Event::builder("CASE ").tenant_id("").id(EventId::from_bytes([0; 16])).bytes("a")),
        build(Event::builder("case").tenant_id(" ").id(EventId::from_bytes([255; 16])).bytes("A")),
    ];
    assert_round_trip(probe, events).await;
}

/// Payloads are bytes, whatever they are said to be. Holds E6 and E10.
pub async fn payloads_come_back_to_the_byte<H: StoreHarness>(probe: &Probe<H>) {
    let mut payloads: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0],
        b"a\0b".to_vec(),
        vec![0xff, 0xfe, 0xc0, 0x80],
        // A lone surrogate, as some encoders write it.
        vec![0xed, 0xa0, 0x80],
        "\u{feff}{}".into(),
        (0..=255).collect(),
        b"\\x00 \\000 '' \\' \r\n".to_vec(),
    ];
    // The seed makes a failure repeat itself.
    let mut random = fastrand::Rng::with_seed(7);
    payloads.extend((0..64).map(|_| {
        let length = random.usize(0..2_000);
        std::iter::repeat_with(|| random.u8(..)).take(length).collect()
    }));
    let mut events: Vec<Event> = payloads
        .into_iter()
        .map(|bytes| Event::builder("bytes").bytes(bytes).build().expect("within the limits"))
        .collect();
    // A database that knows JSON must not tidy it up.
    for text in [r#"{"b":1, "a":2,"a":3}"#, "1.0e2", r#""\u0000\ud800""#, " [ ] "] {
        events.push(Event::json_text("json", text).expect("within the limits"));
    }
    assert_round_trip(probe, events).await;
}

/// The limit itself passes. Holds E10.
pub async fn the_largest_payload_comes_back_to_the_byte<H: StoreHarness>(probe: &Probe<H>) {
    let mut random = fastrand::Rng::with_seed(11);
    let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(PAYLOAD_BYTES).collect();
    let event = Event::builder("large").bytes(bytes).build().expect("the limit itself");
    assert_round_trip(probe, vec![event]).await;
}
