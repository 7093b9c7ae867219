//! What can be written to an outbox.

use super::{Event, EventBuilder};
use crate::invalid::InvalidEvent;
use crate::name::EventType;

/// What can be written to an outbox: an event, a builder, a type with JSON, or a struct with
/// `#[derive(Event)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no event",
    label = "this cannot be written to an outbox",
    note = "a struct is one with `#[derive(serde::Serialize, sendoff::Event)]` and `#[event(type = \"order.placed\")]`",
    note = "any other value that is `Serialize` is written with `emit_json(\"order.placed\", &value)` or `write_json(&mut tx, \"order.placed\", &value)`",
    note = "JSON text is written as `(\"order.placed\", text)`, bytes and headers with `Event::builder(\"order.placed\")`"
)]
pub trait IntoEvent {
    /// The event, checked.
    fn into_event(self) -> Result<Event, InvalidEvent>;

    /// Keys and values of the tags it has in a [journal](crate::journal); an outbox has none.
    fn tags(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl IntoEvent for Event {
    fn into_event(self) -> Result<Event, InvalidEvent> {
        Ok(self)
    }
}

impl IntoEvent for &Event {
    fn into_event(self) -> Result<Event, InvalidEvent> {
        Ok(self.clone())
    }
}

impl IntoEvent for EventBuilder {
    fn into_event(self) -> Result<Event, InvalidEvent> {
        self.build()
    }
}

impl<T: EventType> IntoEvent for (T, serde_json::Value) {
    fn into_event(self) -> Result<Event, InvalidEvent> {
        Event::json(self.0, &self.1)
    }
}

impl<T: EventType> IntoEvent for (T, &str) {
    /// A type and JSON text.
    fn into_event(self) -> Result<Event, InvalidEvent> {
        Event::json_text(self.0, self.1)
    }
}

impl<T: EventType> IntoEvent for (T, String) {
    /// A type and JSON text.
    fn into_event(self) -> Result<Event, InvalidEvent> {
        Event::json_text(self.0, self.1)
    }
}

/// An event of one type, made with `#[derive(Event)]`: the names its handler is registered by.
///
/// Both, because a handler for the type alone never sees an event that names an aggregate.
pub trait TypedEvent {
    /// The name of its type.
    const EVENT_TYPE: &'static str;
    /// The name of its aggregate's type; `__GLOBAL__` where it has none.
    const AGGREGATE_TYPE: &'static str;
}
