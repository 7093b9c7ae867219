//! One payload, within its limit, the same bytes everywhere.

use std::cell::Cell;

use proptest::prelude::*;
use sendoff_core::{Delivery, Event, InvalidEvent, Lane, Origin, Timestamp, Validation, limits};
use serde::{Serialize, Serializer};

/// Holds E4.
#[test]
fn an_event_without_a_payload_is_refused() {
    assert!(matches!(Event::builder("x").build(), Err(InvalidEvent::NoPayload)));
}

/// Holds E4.
#[test]
fn two_payloads_are_refused_also_of_the_same_kind() {
    let builder = || Event::builder("x");
    for two in [
        builder().json(&1).bytes("1"),
        builder().bytes("1").json(&1),
        builder().json_text("1").bytes("1"),
        builder().json(&1).json(&1),
        builder().bytes("1").bytes("1"),
    ] {
        assert!(matches!(two.build(), Err(InvalidEvent::TwoPayloads)));
    }
}

/// Holds E4. Empty is a payload; missing is not.
#[test]
fn no_bytes_at_all_are_a_payload() {
    assert_eq!(Event::builder("x").bytes("").build().unwrap().payload().len(), 0);
}

/// Holds E5.
#[test]
fn a_mebibyte_passes_and_one_more_byte_is_refused_with_both_sizes() {
    assert_eq!(limits::PAYLOAD_BYTES, 1_048_576);
    for bytes in [limits::PAYLOAD_BYTES - 1, limits::PAYLOAD_BYTES] {
        let event = Event::builder("x").bytes(vec![7; bytes]).build().unwrap();
        assert_eq!(event.payload().len(), bytes);
    }
    let refused = Event::builder("x").bytes(vec![7; limits::PAYLOAD_BYTES + 1]).build();
    assert_eq!(refused.unwrap_err().to_string(), "payload is 1048577 bytes; the limit is 1048576");
}

/// Holds E5.
#[test]
fn json_is_measured_as_it_is_stored() {
    // Two quotes around it, and two bytes for each character.
    let value = "ä".repeat(limits::PAYLOAD_BYTES / 2 - 1);
    assert_eq!(Event::json("x", &value).unwrap().payload().len(), limits::PAYLOAD_BYTES);
    let longer = value + "x";
    assert!(matches!(
        Event::json("x", &longer),
        Err(InvalidEvent::PayloadTooLarge { bytes: 1_048_577, limit: 1_048_576 })
    ));
    let text = "1".repeat(limits::PAYLOAD_BYTES + 1);
    assert!(matches!(
        Event::json_text("x", text),
        Err(InvalidEvent::PayloadTooLarge { bytes: 1_048_577, limit: 1_048_576 })
    ));
}

/// Counts how often it is serialised.
struct Counted(Cell<usize>);

impl Serialize for Counted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.set(self.0.get() + 1);
        serializer.serialize_str("counted")
    }
}

/// Holds E6.
#[test]
fn a_payload_is_serialised_once_and_its_bytes_are_shared_on_every_path() {
    let value = Counted(Cell::new(0));
    let event = Event::json("x", &value).unwrap();
    let inserted = event.as_ref().payload.clone();
    let event_again = event.clone();
    let now = Timestamp::now();
    let hot = Delivery {
        event: event.clone(),
        created_at: now,
        attempt: 1,
        origin: Origin::Row(Lane::Hot),
    };
    let cold = Event::restore(event.as_ref().clone()).unwrap();
    assert_eq!(value.0.get(), 1);
    for bytes in [&inserted, event_again.payload(), hot.payload(), cold.payload()] {
        assert_eq!(bytes.as_ptr(), event.payload().as_ptr(), "copied, or written anew");
        assert_eq!(bytes, event.payload());
    }
}

/// Refuses to be serialised.
struct Unserialisable;

impl Serialize for Unserialisable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no"))
    }
}

/// Holds E9.
#[test]
fn what_cannot_be_serialised_is_refused() {
    assert!(matches!(Event::json("x", &Unserialisable), Err(InvalidEvent::Unserialisable(_))));
    let key_is_no_text = std::collections::HashMap::from([((1, 2), 3)]);
    assert!(matches!(Event::json("x", &key_is_no_text), Err(InvalidEvent::Unserialisable(_))));
}

/// Holds E9.
#[test]
fn text_that_is_not_json_is_refused_at_the_write_unless_switched_off() {
    for text in ["", "{", "{}}", "nul", "'x'", "{\"a\":1,}", "[1] x", "\u{feff}{}"] {
        let event = Event::json_text("x", text).unwrap();
        let refused = event.validate(Validation::default());
        assert!(matches!(refused, Err(InvalidEvent::NotJson(_))), "{text:?}");
        let unchecked = Validation { payload: false, ..Validation::default() };
        assert!(event.validate(unchecked).is_ok(), "{text:?}");
        assert_eq!(event.payload(), text.as_bytes());
    }
}

/// Holds E9. Depth is bounded by the payload's size alone, and looking costs no stack.
#[test]
fn json_may_be_odd_and_deep() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    for text in
        ["null", " 1e400 ", r#"{"a":1,"a":2}"#, r#""\u0000""#, r#""\ud800""#, "{\n}\t\r", &deep]
    {
        let event = Event::json_text("x", text).unwrap();
        event.validate(Validation::default()).unwrap();
        assert_eq!(event.payload(), text.as_bytes());
    }
}

/// Holds E10.
#[test]
fn bytes_are_not_looked_at() {
    let bytes: &[u8] = &[0, 0xff, 0xfe, 0xed, 0xa0, 0x80, b'\r', b'\n', b'{'];
    let event = Event::builder("x").bytes(bytes).build().unwrap();
    event.validate(Validation::default()).unwrap();
    assert_eq!(event.payload(), bytes);
    assert_eq!(event.content_type(), "application/octet-stream");
}

/// Holds E10.
#[test]
fn the_content_type_says_what_the_payload_is() {
    assert_eq!(Event::json("x", &1).unwrap().content_type(), "application/json");
    assert_eq!(Event::json_text("x", "1").unwrap().content_type(), "application/json");
    let event = Event::builder("x").bytes(vec![1]).content_type("application/x-protobuf");
    assert_eq!(event.build().unwrap().content_type(), "application/x-protobuf");
}

#[test]
fn a_json_payload_reads_back() {
    let event = Event::json("x", &vec![1, 2, 3]).unwrap();
    assert_eq!(event.read_json::<Vec<u8>>().unwrap(), [1, 2, 3]);
}

proptest! {
    /// Holds E6, E10.
    #[test]
    fn any_bytes_are_delivered_as_they_were_given(bytes: Vec<u8>) {
        let written = Event::builder("x").bytes(bytes.clone()).build().unwrap();
        let restored = Event::restore(written.as_ref().clone()).unwrap();
        prop_assert_eq!(restored.payload(), &bytes);
    }

    /// Holds E6.
    #[test]
    fn any_text_is_kept_to_the_byte(text: String) {
        let event = Event::json_text("x", text.as_str()).unwrap();
        prop_assert_eq!(event.payload(), text.as_bytes());
    }

    /// Holds E9.
    #[test]
    fn what_serde_json_writes_passes_its_own_check(text: String, number: i64, spaces in " {0,3}") {
        let json = serde_json::json!({ &text: [number, null, { "text": text }] });
        let event = Event::json_text("x", format!("{spaces}{json}{spaces}")).unwrap();
        prop_assert!(event.validate(Validation::default()).is_ok());
        prop_assert_eq!(event.read_json::<serde_json::Value>().unwrap(), json);
    }
}
