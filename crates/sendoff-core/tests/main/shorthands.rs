//! The short ways to an event.

use sendoff_core::{Event, EventType, IntoEvent, InvalidEvent, Validation};
use serde_json::json;

/// A type of the user's own, as `derive(EventType)` writes it.
enum Orders {
    Placed,
}

impl EventType for Orders {
    fn name(&self) -> &str {
        match self {
            Self::Placed => "order.placed",
        }
    }
}

/// Holds E11.
#[test]
fn a_type_and_json_make_an_event() {
    let value = json!({ "total": 990 });
    let text = r#"{"total":990}"#;
    for event in [
        Event::json("order.placed", &value),
        Event::json_text("order.placed", text),
        ("order.placed", value.clone()).into_event(),
        ("order.placed", text).into_event(),
        ("order.placed", text.to_owned()).into_event(),
        (String::from("order.placed"), text).into_event(),
    ] {
        let event = event.unwrap();
        assert_eq!(event.event_type(), "order.placed");
        assert_eq!(event.payload(), text.as_bytes());
        assert_eq!(event.content_type(), "application/json");
    }
}

/// Holds E11.
#[test]
fn a_typed_type_and_json_make_the_same_event() {
    let value = json!({ "total": 990 });
    let text = r#"{"total":990}"#;
    for event in [
        Event::json(Orders::Placed, &value),
        Event::json(&Orders::Placed, &value),
        Event::json_text(Orders::Placed, text),
        (Orders::Placed, value.clone()).into_event(),
        (Orders::Placed, text).into_event(),
    ] {
        let event = event.unwrap();
        assert_eq!(event.event_type(), "order.placed");
        assert_eq!(event.payload(), text.as_bytes());
    }
}

/// Holds E11, E9. Short is not unchecked.
#[test]
fn shorthands_are_held_to_the_same_rules() {
    assert!(matches!(("", "{}").into_event(), Err(InvalidEvent::Empty { field: "event_type" })));
    let event = ("x", "{").into_event().unwrap();
    assert!(matches!(event.validate(Validation::default()), Err(InvalidEvent::NotJson(_))));
}

#[test]
fn an_event_a_reference_and_a_builder_are_events_already() {
    let event = Event::json("x", "payload").unwrap();
    assert_eq!((&event).into_event().unwrap(), event);
    assert_eq!(event.clone().into_event().unwrap(), event);
    let built = Event::builder("x").id(event.id()).json("payload").into_event().unwrap();
    assert_eq!(built.id(), event.id());
}
