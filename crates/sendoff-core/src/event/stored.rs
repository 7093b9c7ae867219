use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::header::Headers;
use crate::id::EventId;
use crate::timestamp::Timestamp;

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

impl fmt::Debug for StoredEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredEvent")
            .field("id", &self.id)
            .field("event_type", &self.event_type)
            .finish_non_exhaustive()
    }
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
