//! Headers and their limits.

use proptest::prelude::*;
use sendoff_core::{Event, EventBuilder, Headers, InvalidEvent, Validation, limits};

fn with(headers: impl IntoIterator<Item = (String, String)>) -> Result<Event, InvalidEvent> {
    let empty: EventBuilder = Event::builder("x").bytes("payload");
    headers.into_iter().fold(empty, |builder, (name, value)| builder.header(name, value)).build()
}

fn many(count: usize) -> Result<Event, InvalidEvent> {
    with((0..count).map(|n| (format!("h{n}"), String::new())))
}

#[test]
fn sixty_four_headers_pass_and_one_more_is_refused() {
    for count in [limits::HEADERS - 1, limits::HEADERS] {
        assert_eq!(many(count).unwrap().headers().len(), count);
    }
    assert!(matches!(many(65), Err(InvalidEvent::TooManyHeaders { count: 65, limit: 64 })));
}

#[test]
fn ten_thousand_headers_are_refused_with_the_sizes_in_the_error() {
    let refused = many(10_000).unwrap_err();
    assert_eq!(refused.to_string(), "headers: 10000 given; the limit is 64");
}

#[test]
fn thirty_two_kibibytes_of_headers_pass_and_one_more_byte_is_refused() {
    // Names count too: two of one byte each.
    let sized = |bytes: usize| {
        let half = bytes / 2;
        with([("a".into(), "x".repeat(half - 1)), ("b".into(), "x".repeat(bytes - half - 1))])
    };
    assert!(sized(limits::HEADER_BYTES - 1).is_ok());
    assert!(sized(limits::HEADER_BYTES).is_ok());
    let refused = sized(limits::HEADER_BYTES + 1).unwrap_err();
    assert_eq!(refused.to_string(), "headers are 32769 bytes together; the limit is 32768");
}

#[test]
fn header_sizes_are_bytes_and_not_characters() {
    let refused = with([("a".into(), "ä".repeat(limits::HEADER_BYTES / 2))]).unwrap_err();
    assert!(matches!(refused, InvalidEvent::HeadersTooLarge { bytes: 32_769, limit: 32_768 }));
}

#[test]
fn a_header_name_has_one_to_128_characters() {
    let named = |chars: usize| with([("ä".repeat(chars), String::new())]);
    assert!(matches!(named(0), Err(InvalidEvent::Empty { field: "header name" })));
    for chars in [1, 127, 128] {
        assert!(named(chars).is_ok(), "{chars}");
    }
    assert!(matches!(
        named(129),
        Err(InvalidEvent::TooLong { field: "header name", chars: 129, limit: 128 })
    ));
}

/// Holds E9.
#[test]
fn line_breaks_and_nul_in_headers_are_refused_at_the_write() {
    for wrong in ['\0', '\r', '\n'] {
        let text = format!("a{wrong}b");
        for (headers, expected) in [
            ((text.clone(), "v".to_owned()), "header name"),
            (("n".to_owned(), text.clone()), "header value"),
        ] {
            let event = with([headers]).unwrap();
            let refused = event.validate(Validation::default()).unwrap_err();
            assert!(
                matches!(refused, InvalidEvent::Character { field, character }
                    if field == expected && character == wrong),
                "{refused}"
            );
        }
    }
}

/// Holds E9.
#[test]
fn header_validation_can_be_switched_off_alone() {
    let event = Event::builder("x").header("n", "a\nb").json_text("{").build().unwrap();
    let off = |payload, headers| event.validate(Validation { payload, headers });
    assert!(matches!(off(true, false), Err(InvalidEvent::NotJson(_))));
    assert!(matches!(off(false, true), Err(InvalidEvent::Character { .. })));
    assert!(off(false, false).is_ok());
}

#[test]
fn the_last_value_given_under_a_name_stays() {
    let event = with([("n".into(), "first".into()), ("n".into(), "last".into())]).unwrap();
    assert_eq!(event.headers().iter().collect::<Vec<_>>(), [("n", "last")]);
    assert_eq!(event.headers().get("n"), Some("last"));
    assert_eq!(event.headers().get("N"), None);
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Trace {
    hops: Vec<String>,
    sampled: bool,
}

/// Holds E13.
#[test]
fn a_structured_value_goes_in_and_comes_out_by_one_call_each() {
    let trace = Trace { hops: vec!["shop".into(), "till\n".into()], sampled: true };
    let event = Event::builder("x").header_json("trace", &trace).bytes("p").build().unwrap();
    assert_eq!(event.headers().get("trace"), Some(r#"{"hops":["shop","till\n"],"sampled":true}"#));
    assert!(event.validate(Validation::default()).is_ok(), "a line break is escaped");
    let stored = Headers::from_json(event.headers().to_json().as_deref()).unwrap();
    assert_eq!(stored.read_json("trace").unwrap(), Some(trace));
    assert_eq!(stored.read_json::<Trace>("other").unwrap(), None);
}

/// Holds E13.
#[test]
fn a_header_that_is_not_what_was_expected_is_named_and_not_shown() {
    let event = with([("trace".into(), r#"{"hops":"secret"}"#.into())]).unwrap();
    let error = event.headers().read_json::<Trace>("trace").unwrap_err().to_string();
    assert!(error.starts_with("header \"trace\" is not the expected JSON"), "{error}");
    assert!(error.contains("hops") && !error.contains("secret"), "{error}");
}

/// Holds E9, E13.
#[test]
fn a_header_that_cannot_be_serialised_is_refused_by_its_name() {
    let no_json = std::collections::BTreeMap::from([((1, 2), 3)]);
    let refused = Event::builder("x").header_json("map", &no_json).bytes("p").build().unwrap_err();
    assert_eq!(refused.to_string(), "header \"map\" could not be serialised");
}

proptest! {
    /// Holds E6.
    #[test]
    fn headers_survive_being_stored_whatever_they_say(
        pairs in proptest::collection::btree_map(".{1,20}", any::<String>(), 0..10)
    ) {
        let event = with(pairs.clone()).unwrap();
        let stored = event.headers().to_json();
        prop_assert_eq!(stored.is_none(), pairs.is_empty());
        let restored = Headers::from_json(stored.as_deref()).unwrap();
        prop_assert_eq!(&restored, event.headers());
        let restored: Vec<_> = restored.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        prop_assert_eq!(restored, pairs.into_iter().collect::<Vec<_>>());
    }
}
