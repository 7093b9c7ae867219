//! Building an event field by field, and checking all limits at the end.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Event, Parts, StoredEvent, Syntax};
use crate::header::Headers;
use crate::id::EventId;
use crate::invalid::InvalidEvent;
use crate::limits;
use crate::name::{self, AggregateType, GLOBAL_AGGREGATE};
use crate::timestamp::Timestamp;

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// Collects an event's fields; [`build`](Self::build) checks them.
#[derive(Debug)]
#[must_use = "an event exists only after `build`"]
pub struct EventBuilder {
    stored: StoredEvent,
    ordered: bool,
    delay: Duration,
    payloads: usize,
    syntax: Syntax,
    unserialisable: Option<InvalidEvent>,
    occurred_at: Option<Timestamp>,
    id: Option<EventId>,
}

impl EventBuilder {
    pub(super) fn new(event_type: &str) -> Self {
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
            ordered: false,
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

    /// Sets the key within which order matters: its events are delivered one after the other, in the order in
    /// which they were written, and one that fails holds back those after it and nothing else.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.stored.ordering_key = Some(key.into());
        self
    }

    /// Delivers the events of its aggregate in order: the key is its type and id.
    pub fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Sets one header; the last value given under a name stays.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.stored.headers.insert(name.into(), value.into());
        self
    }

    /// Sets one header to this value as JSON text; [`Headers::read_json`] reads it.
    pub fn header_json(
        mut self,
        name: impl Into<String>,
        value: &(impl Serialize + ?Sized),
    ) -> Self {
        let name = name.into();
        match serde_json::to_string(value) {
            Ok(text) => self.header(name, text),
            Err(source) => {
                self.unserialisable =
                    Some(InvalidEvent::UnserialisableHeader { header: name, source });
                self
            }
        }
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
                self.unserialisable = Some(InvalidEvent::Unserialisable(error));
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
        let Self { mut stored, ordered, delay, payloads, syntax, unserialisable, occurred_at, id } =
            self;
        if let Some(error) = unserialisable {
            return Err(error);
        }
        match payloads {
            0 => return Err(InvalidEvent::NoPayload),
            1 => {}
            _ => return Err(InvalidEvent::TwoPayloads),
        }
        if ordered && stored.ordering_key.is_none() {
            stored.ordering_key = Some(key_of_aggregate(&stored)?);
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

/// `type:id`, or as much of it as fits beside its digest.
fn key_of_aggregate(event: &StoredEvent) -> Result<String, InvalidEvent> {
    let id = event.aggregate_id.as_ref().ok_or(InvalidEvent::NothingToOrderBy)?;
    let key = format!("{}:{id}", event.aggregate_type);
    if key.chars().count() <= limits::ORDERING_KEY_CHARS {
        return Ok(key);
    }
    let digest = Sha256::digest(key.as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = limits::ORDERING_KEY_CHARS - digest.len() - 1;
    Ok(format!("{}:{digest}", limits::truncate(&key, kept)))
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
