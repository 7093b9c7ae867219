use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::header::Headers;
use crate::id::EventId;
use crate::invalid::InvalidEvent;
use crate::limits;
use crate::name::{self, AggregateType, EventType, GLOBAL_AGGREGATE};
use crate::shard::shard_of;
use crate::timestamp::Timestamp;

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// Something that happened, to be told to others once its transaction commits.
///
/// Immutable, and cheap to clone. The payload is serialised once; the same bytes are inserted,
/// delivered from memory and delivered from the table.
///
/// ```
/// use sendoff_core::Event;
///
/// let event = Event::builder("order.placed")
///     .aggregate("order", "4711")
///     .header("source", "shop")
///     .json(&serde_json::json!({ "total": 990 }))
///     .build()?;
/// assert_eq!(event.payload(), &br#"{"total":990}"#[..]);
/// # Ok::<(), sendoff_core::InvalidEvent>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Event(Arc<Parts>);

#[derive(PartialEq, Eq)]
struct Parts {
    stored: StoredEvent,
    delay: Duration,
    syntax: Syntax,
}

/// What is known of the payload's syntax.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// Not JSON, or JSON we wrote ourselves.
    Settled,
    /// Said to be JSON; to be looked at when it is written.
    ClaimsJson,
}

/// An event's fields as a store keeps them.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the event's accessor of the same name")]
pub struct StoredEvent {
    pub id: EventId,
    pub event_type: String,
    pub aggregate_type: String,
    pub aggregate_id: Option<String>,
    pub tenant_id: Option<String>,
    pub ordering_key: Option<String>,
    pub headers: Headers,
    pub content_type: Cow<'static, str>,
    pub payload: Bytes,
    pub occurred_at: Timestamp,
}

/// A stored row that is no event.
#[derive(Debug, thiserror::Error)]
#[error("stored row cannot be decoded: {field}")]
pub struct Undecodable {
    /// The column at fault.
    pub field: &'static str,
    /// What was wrong with it.
    #[source]
    pub source: Option<crate::BoxError>,
}

/// The payload is not the JSON that was expected.
///
/// Says where and in which way, and nothing more: the parser's own words may quote the payload, and
/// a handler's error ends up in the table and in logs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("payload is not the expected JSON ({category} error at line {line}, column {column})")]
pub struct UnreadableJson {
    /// `syntax`, `data` (well formed, but not of the type asked for), or `end` (cut short).
    pub category: &'static str,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
}

impl From<&serde_json::Error> for UnreadableJson {
    fn from(error: &serde_json::Error) -> Self {
        let category = match error.classify() {
            serde_json::error::Category::Data => "data",
            serde_json::error::Category::Eof => "end",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => "syntax",
        };
        Self { category, line: error.line(), column: error.column() }
    }
}

/// Which checks a write makes beyond the limits, which always hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validation {
    /// Look whether a payload given as JSON text is JSON.
    pub payload: bool,
    /// Look for CR, LF and NUL in header names and values.
    pub headers: bool,
}

impl Default for Validation {
    fn default() -> Self {
        Self { payload: true, headers: true }
    }
}

impl Event {
    /// Starts an event of this type.
    pub fn builder(event_type: impl EventType) -> EventBuilder {
        EventBuilder::new(event_type.name())
    }

    /// Shorthand: a type and a value to serialise.
    pub fn json(
        event_type: impl EventType,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Self, InvalidEvent> {
        Self::builder(event_type).json(value).build()
    }

    /// Shorthand: a type and JSON text, kept to the byte.
    pub fn json_text(
        event_type: impl EventType,
        text: impl Into<String>,
    ) -> Result<Self, InvalidEvent> {
        Self::builder(event_type).json_text(text).build()
    }

    /// The event a store kept. Limits are not looked at again: they may have been others then.
    pub fn restore(stored: StoredEvent) -> Result<Self, Undecodable> {
        if stored.event_type.is_empty() {
            return Err(Undecodable { field: "event_type", source: None });
        }
        Ok(Self(Arc::new(Parts { stored, delay: Duration::ZERO, syntax: Syntax::Settled })))
    }

    /// Its identity.
    pub fn id(&self) -> EventId {
        self.0.stored.id
    }

    /// Its type's name.
    pub fn event_type(&self) -> &str {
        &self.0.stored.event_type
    }

    /// The name of its aggregate's type; `__GLOBAL__` where none was given.
    pub fn aggregate_type(&self) -> &str {
        &self.0.stored.aggregate_type
    }

    /// The aggregate it is about.
    pub fn aggregate_id(&self) -> Option<&str> {
        self.0.stored.aggregate_id.as_deref()
    }

    /// The tenant it belongs to. Handed through, never filtered by.
    pub fn tenant_id(&self) -> Option<&str> {
        self.0.stored.tenant_id.as_deref()
    }

    /// The key within which order matters.
    pub fn ordering_key(&self) -> Option<&str> {
        self.0.stored.ordering_key.as_deref()
    }

    /// Its headers.
    pub fn headers(&self) -> &Headers {
        &self.0.stored.headers
    }

    /// The media type of the payload.
    pub fn content_type(&self) -> &str {
        &self.0.stored.content_type
    }

    /// The payload, to the byte as it was given.
    pub fn payload(&self) -> &Bytes {
        &self.0.stored.payload
    }

    /// When it happened, by the writer's clock.
    pub fn occurred_at(&self) -> Timestamp {
        self.0.stored.occurred_at
    }

    /// How long after the write it becomes due.
    pub fn delay(&self) -> Duration {
        self.0.delay
    }

    /// Its shard.
    pub fn shard(&self) -> u8 {
        shard_of(self.id(), self.ordering_key())
    }

    /// Reads a JSON payload.
    pub fn read_json<T: DeserializeOwned>(&self) -> Result<T, UnreadableJson> {
        serde_json::from_slice(self.payload()).map_err(|error| UnreadableJson::from(&error))
    }

    /// The checks that a writer may switch off.
    pub fn validate(&self, validation: Validation) -> Result<(), InvalidEvent> {
        if validation.payload && self.0.syntax == Syntax::ClaimsJson {
            serde_json::from_slice::<IgnoredAny>(self.payload()).map_err(InvalidEvent::NotJson)?;
        }
        if validation.headers {
            self.headers().check_characters()?;
        }
        Ok(())
    }
}

impl fmt::Debug for Event {
    /// Without payload and header values: `Debug` ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("id", &self.id())
            .field("event_type", &self.event_type())
            .field("aggregate_type", &self.aggregate_type())
            .field("aggregate_id", &self.aggregate_id())
            .field("headers", self.headers())
            .field("content_type", &self.content_type())
            .field("payload_bytes", &self.payload().len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StoredEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredEvent")
            .field("id", &self.id)
            .field("event_type", &self.event_type)
            .finish_non_exhaustive()
    }
}

impl AsRef<StoredEvent> for Event {
    fn as_ref(&self) -> &StoredEvent {
        &self.0.stored
    }
}

/// Collects an event's fields; [`build`](Self::build) checks them.
#[derive(Debug)]
#[must_use = "an event exists only after `build`"]
pub struct EventBuilder {
    stored: StoredEvent,
    delay: Duration,
    payloads: usize,
    syntax: Syntax,
    unserialisable: Option<serde_json::Error>,
    occurred_at: Option<Timestamp>,
    id: Option<EventId>,
}

impl fmt::Debug for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::ClaimsJson { "json, unchecked" } else { "settled" })
    }
}

impl EventBuilder {
    fn new(event_type: &str) -> Self {
        Self {
            stored: StoredEvent {
                id: EventId::from_bytes([0; 16]),
                event_type: event_type.to_owned(),
                aggregate_type: GLOBAL_AGGREGATE.to_owned(),
                aggregate_id: None,
                tenant_id: None,
                ordering_key: None,
                headers: Headers::default(),
                content_type: Cow::Borrowed(BYTES),
                payload: Bytes::new(),
                occurred_at: Timestamp::from_micros(0),
            },
            delay: Duration::ZERO,
            payloads: 0,
            syntax: Syntax::Settled,
            unserialisable: None,
            occurred_at: None,
            id: None,
        }
    }

    /// Sets the id; the default is a new UUIDv7.
    pub fn id(mut self, id: EventId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the type of the aggregate.
    pub fn aggregate_type(mut self, aggregate_type: impl AggregateType) -> Self {
        self.stored.aggregate_type = aggregate_type.name().to_owned();
        self
    }

    /// Sets the id of the aggregate.
    pub fn aggregate_id(mut self, id: impl Into<String>) -> Self {
        self.stored.aggregate_id = Some(id.into());
        self
    }

    /// Sets type and id of the aggregate.
    pub fn aggregate(self, aggregate_type: impl AggregateType, id: impl Into<String>) -> Self {
        self.aggregate_type(aggregate_type).aggregate_id(id)
    }

    /// Sets the tenant.
    pub fn tenant_id(mut self, tenant: impl Into<String>) -> Self {
        self.stored.tenant_id = Some(tenant.into());
        self
    }

    /// Sets the key within which order matters.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.stored.ordering_key = Some(key.into());
        self
    }

    /// Sets one header; the last value given under a name stays.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.stored.headers.insert(name.into(), value.into());
        self
    }

    /// Sets when it happened; the default is now.
    pub fn occurred_at(mut self, at: impl Into<Timestamp>) -> Self {
        self.occurred_at = Some(at.into());
        self
    }

    /// Makes it due only this long after the write. A delayed event never takes the hot lane.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The payload: this value as JSON.
    pub fn json(mut self, value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => self.payload(bytes.into(), JSON, Syntax::Settled),
            Err(error) => {
                self.payloads += 1;
                self.unserialisable = Some(error);
                self
            }
        }
    }

    /// The payload: this JSON text, kept to the byte and checked when it is written.
    pub fn json_text(self, text: impl Into<String>) -> Self {
        self.payload(text.into().into(), JSON, Syntax::ClaimsJson)
    }

    /// The payload: these bytes.
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.payload(bytes.into(), BYTES, Syntax::Settled)
    }

    /// Says what the payload is, after it was given.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.stored.content_type = Cow::Owned(content_type.into());
        self
    }

    fn payload(mut self, bytes: Bytes, content_type: &'static str, syntax: Syntax) -> Self {
        self.payloads += 1;
        self.stored.payload = bytes;
        self.stored.content_type = Cow::Borrowed(content_type);
        self.syntax = syntax;
        self
    }

    /// Checks every field against its limit and makes the event.
    pub fn build(self) -> Result<Event, InvalidEvent> {
        let Self { mut stored, delay, payloads, syntax, unserialisable, occurred_at, id } = self;
        if let Some(error) = unserialisable {
            return Err(InvalidEvent::Unserialisable(error));
        }
        match payloads {
            0 => return Err(InvalidEvent::NoPayload),
            1 => {}
            _ => return Err(InvalidEvent::TwoPayloads),
        }
        check_fields(&stored)?;
        if delay > limits::DELAY {
            return Err(InvalidEvent::DelayTooLong { delay, limit: limits::DELAY });
        }
        stored.id = id.unwrap_or_else(EventId::generate);
        stored.occurred_at = occurred_at.unwrap_or_else(Timestamp::now);
        Ok(Event(Arc::new(Parts { stored, delay, syntax })))
    }
}

fn check_fields(event: &StoredEvent) -> Result<(), InvalidEvent> {
    for (field, text) in
        [("event_type", &event.event_type), ("aggregate_type", &event.aggregate_type)]
    {
        if text.is_empty() {
            return Err(InvalidEvent::Empty { field });
        }
    }
    name::check("event_type", &event.event_type, limits::EVENT_TYPE_CHARS)?;
    name::check("aggregate_type", &event.aggregate_type, limits::AGGREGATE_TYPE_CHARS)?;
    name::check("content_type", &event.content_type, limits::CONTENT_TYPE_CHARS)?;
    for (field, text, limit) in [
        ("aggregate_id", &event.aggregate_id, limits::AGGREGATE_ID_CHARS),
        ("tenant_id", &event.tenant_id, limits::TENANT_ID_CHARS),
        ("ordering_key", &event.ordering_key, limits::ORDERING_KEY_CHARS),
    ] {
        if let Some(text) = text {
            name::check(field, text, limit)?;
        }
    }
    let bytes = event.payload.len();
    if bytes > limits::PAYLOAD_BYTES {
        return Err(InvalidEvent::PayloadTooLarge { bytes, limit: limits::PAYLOAD_BYTES });
    }
    event.headers.check_sizes()
}

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
