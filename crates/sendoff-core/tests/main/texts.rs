//! The text fields: required, bounded, and free of what breaks a protocol.

use proptest::prelude::*;
use sendoff_core::{Event, EventBuilder, InvalidEvent};

/// A text field, and how to set it on an otherwise good event.
struct Field {
    name: &'static str,
    limit: usize,
    set: fn(&str) -> EventBuilder,
}

fn good() -> EventBuilder {
    Event::builder("x").bytes("payload")
}

const FIELDS: [Field; 6] = [
    Field { name: "event_type", limit: 128, set: |text| Event::builder(text).bytes("payload") },
    Field { name: "aggregate_type", limit: 64, set: |text| good().aggregate_type(text) },
    Field { name: "aggregate_id", limit: 128, set: |text| good().aggregate_id(text) },
    Field { name: "tenant_id", limit: 64, set: |text| good().tenant_id(text) },
    Field { name: "ordering_key", limit: 128, set: |text| good().ordering_key(text) },
    Field { name: "content_type", limit: 128, set: |text| good().content_type(text) },
];

/// Holds E2.
#[test]
fn the_types_are_required() {
    for field in &FIELDS[..2] {
        let refused = (field.set)("").build();
        assert!(
            matches!(refused, Err(InvalidEvent::Empty { field: name }) if name == field.name),
            "{}",
            field.name
        );
    }
}

/// Holds E2.
#[test]
fn each_limit_passes_itself_and_refuses_one_character_more() {
    for field in &FIELDS {
        // Two bytes each: characters are counted, not bytes.
        for chars in [field.limit - 1, field.limit] {
            assert!((field.set)(&"ä".repeat(chars)).build().is_ok(), "{} {chars}", field.name);
        }
        let refused = (field.set)(&"ä".repeat(field.limit + 1)).build().unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "{} has {} characters; the limit is {}",
                field.name,
                field.limit + 1,
                field.limit
            )
        );
    }
}

/// Holds E2.
#[test]
fn nul_and_line_breaks_are_refused_in_every_text_field() {
    for field in &FIELDS {
        for wrong in ['\0', '\r', '\n'] {
            for text in [format!("{wrong}a"), format!("a{wrong}b"), format!("a{wrong}")] {
                let refused = (field.set)(&text).build();
                assert!(
                    matches!(refused, Err(InvalidEvent::Character { field: name, character })
                        if name == field.name && character == wrong),
                    "{} {text:?}",
                    field.name
                );
            }
        }
    }
}

proptest! {
    /// Holds E2.
    #[test]
    fn a_text_is_accepted_exactly_when_it_is_short_enough_and_clean(
        which in 0..FIELDS.len(),
        text in prop_oneof![any::<String>(), "[\\x00\r\na-c]{1,4}", ".{60,140}"],
    ) {
        let field = &FIELDS[which];
        prop_assume!(!text.is_empty());
        let clean = !text.contains(['\0', '\r', '\n']);
        let fits = text.chars().count() <= field.limit;
        prop_assert_eq!((field.set)(&text).build().is_ok(), clean && fits);
    }
}
