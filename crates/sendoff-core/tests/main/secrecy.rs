//! What ends up in logs says nothing of payloads and header values.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;

use sendoff_core::{
    Delivery, Event, Failure, FailureClass, InvalidEvent, Lane, Origin, Timestamp, Validation,
    limits,
};
use serde::Deserialize;
use serde_json::json;

const CANARY: &str = "canary-7f3a";

#[track_caller]
fn assert_silent(value: &dyn Debug) {
    for text in [format!("{value:?}"), format!("{value:#?}")] {
        assert!(!text.contains(CANARY), "{text}");
        // The same, as a list of numbers, is how bytes print.
        assert!(!text.contains("99, 97, 110, 97"), "{text}");
    }
}

/// Holds M4.
#[test]
fn debug_prints_neither_payload_nor_header_values() {
    for builder in [
        || Event::builder("x").json(&CANARY),
        || Event::builder("x").json_text(format!("\"{CANARY}\"")),
        || Event::builder("x").bytes(CANARY),
    ] {
        let builder = || builder().header("authorization", CANARY);
        assert_silent(&builder());
        let event = builder().build().unwrap();
        assert_silent(&event);
        assert_silent(event.as_ref());
        assert_silent(event.headers());
        let created_at = Timestamp::now();
        assert_silent(&Delivery { event, created_at, attempt: 1, origin: Origin::Row(Lane::Hot) });
    }
}

/// Holds M4. Names are what makes a log useful.
#[test]
fn debug_prints_what_identifies_an_event() {
    let event =
        Event::builder("order.placed").header("trace", CANARY).json(&CANARY).build().unwrap();
    let text = format!("{event:?}");
    for shown in [event.id().to_string().as_str(), "order.placed", "trace", "payload_bytes: 13"] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
}

#[track_caller]
fn assert_refusal_is_silent(refused: Result<(), InvalidEvent>) {
    let refused = refused.expect_err("refused");
    assert_silent(&refused);
    let mut cause: Option<&dyn Error> = Some(&refused);
    while let Some(error) = cause {
        assert!(!error.to_string().contains(CANARY), "{error}");
        cause = error.source();
    }
}

/// Holds M4. A handler's error is stored and logged, and what serde says of a value quotes it.
#[test]
fn a_payload_that_cannot_be_read_is_not_quoted() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only to be read")]
    struct Expected {
        number: u32,
        choice: Option<Choice>,
        map: Option<BTreeMap<String, u32>>,
        #[serde(default, deserialize_with = "chatty")]
        custom: u32,
    }
    #[derive(Debug, serde::Deserialize)]
    enum Choice {
        Known,
    }
    fn chatty<'de, D: serde::Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
        let text = String::deserialize(value)?;
        Err(serde::de::Error::custom(format!("invalid value: {text}, expected {text}")))
    }
    for json in [
        json!(CANARY),
        json!({ "number": CANARY }),
        json!({ "number": 1, CANARY: 1 }),
        json!({ "number": 1, "choice": CANARY }),
        json!({ "number": 1, "choice": { CANARY: CANARY } }),
        json!({ "number": 1, "map": { CANARY: CANARY } }),
        json!({ "number": 1, "custom": CANARY }),
    ] {
        let event = Event::json("x", &json).unwrap();
        let error = event.read_json::<Expected>().unwrap_err();
        assert_silent(&error);
        assert!(!error.to_string().contains(CANARY), "{error}");
        assert!(error.field.is_some() || error.expected.is_some(), "{json}: {error}");
        let failure = Failure::from(error);
        assert_eq!(failure.class(), FailureClass::Dead);
        assert!(!failure.report().contains(CANARY), "{failure}");
    }
    for text in [format!("{{\"{CANARY}"), format!("{{{CANARY}}}"), CANARY.to_owned()] {
        let error = Event::builder("x").bytes(text).build().unwrap().read_json::<Expected>();
        assert!(!error.unwrap_err().to_string().contains(CANARY));
    }
}

/// Holds M4.
#[test]
fn a_refusal_names_sizes_and_fields_and_nothing_that_was_given() {
    let large = CANARY.repeat(limits::PAYLOAD_BYTES / CANARY.len() + 1);
    let long = CANARY.repeat(20);
    let builder = || Event::builder("x").bytes(CANARY);
    for refused in [
        Event::builder("x").bytes(large.clone()).build(),
        Event::builder(long.as_str()).bytes(CANARY).build(),
        builder().bytes(CANARY).build(),
        builder().aggregate_type(&long).build(),
        builder().aggregate_id(&long).build(),
        builder().tenant_id(&long).build(),
        builder().ordering_key(&long).build(),
        builder().header(&long, CANARY).build(),
        builder().header("n", &large).build(),
    ] {
        assert_refusal_is_silent(refused.map(drop));
    }
    for text in [CANARY.to_owned(), format!("{{\"{CANARY}\": {CANARY}}}")] {
        let event = Event::json_text("x", text).unwrap();
        assert_refusal_is_silent(event.validate(Validation::default()));
    }
    let event = builder().header("n", format!("{CANARY}\n")).build().unwrap();
    assert_refusal_is_silent(event.validate(Validation::default()));
}
