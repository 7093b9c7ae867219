//! Events: what an application writes and a sink receives, immutable in between.

mod builder;
mod into;
pub(crate) mod json;
mod misfit;
mod stored;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::header::Headers;
use crate::id::EventId;
use crate::invalid::InvalidEvent;
use crate::name::EventType;
use crate::shard::shard_of;
use crate::timestamp::Timestamp;
use crate::trace::{TRACEPARENT, TraceContext};

pub use builder::EventBuilder;
pub use into::{IntoEvent, TypedEvent};
pub use json::UnreadableJson;
pub use stored::{StoredEvent, Undecodable};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// Not JSON, or JSON we wrote ourselves.
    Settled,
    /// Said to be JSON; to be looked at when it is written.
    ClaimsJson,
}

/// Which checks a write makes beyond the limits, which always hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
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

    /// The same event in this trace: its headers `traceparent` and `tracestate` are the trace's, unless it has one
    /// already, which whoever built it meant. What would pass the [limits](crate::limits) of headers is left out: the
    /// `tracestate`, or both.
    #[must_use]
    pub fn traced(self, trace: &TraceContext) -> Self {
        if self.headers().get(TRACEPARENT).is_some() {
            return self;
        }
        let Parts { stored, delay, syntax } = &*self.0;
        let headers_in = |trace: &TraceContext| {
            let mut headers = stored.headers.clone();
            trace.write(&mut headers);
            headers.check_sizes().is_ok().then_some(headers)
        };
        let stateless = || TraceContext { parent: trace.parent, state: None };
        let Some(headers) = headers_in(trace).or_else(|| headers_in(&stateless())) else {
            return self;
        };
        let stored = StoredEvent { headers, ..stored.clone() };
        Self(Arc::new(Parts { stored, delay: *delay, syntax: *syntax }))
    }

    /// The trace that it was written in, where its headers name one.
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::of(self.headers())
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

    /// Bytes of its payload and its headers: what most of its size is, in memory and on the wire.
    pub fn size(&self) -> usize {
        let headers = self.headers().iter().map(|(name, value)| name.len() + value.len());
        self.payload().len() + headers.sum::<usize>()
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
        json::read(self.payload())
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

impl AsRef<StoredEvent> for Event {
    fn as_ref(&self) -> &StoredEvent {
        &self.0.stored
    }
}
