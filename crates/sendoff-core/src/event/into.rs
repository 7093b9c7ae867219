use super::{Event, EventBuilder};
use crate::invalid::InvalidEvent;
use crate::name::EventType;

/// What can be written to an outbox: an event, a builder, a type with a JSON value, or a struct with
/// `#[derive(Event)]`.
pub trait IntoEvent {
    /// The event, checked.
    fn into_event(self) -> Result<Event, InvalidEvent>;
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
