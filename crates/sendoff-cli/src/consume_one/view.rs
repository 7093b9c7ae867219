use sendoff::Delivery;
use serde_json::{Value, json};

use crate::payload::payload;

/// An event for whoever reads lines of JSON; a command gets the very bytes of the payload.
pub(crate) fn line(delivery: &Delivery) -> Value {
    let headers: serde_json::Map<String, Value> =
        delivery.headers().iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({
        "event_id": delivery.id().to_string(),
        "event_type": delivery.event_type(),
        "aggregate_type": delivery.aggregate_type(),
        "aggregate_id": delivery.aggregate_id(),
        "tenant_id": delivery.tenant_id(),
        "headers": headers,
        "content_type": delivery.content_type(),
        "occurred_at": delivery.occurred_at().to_string(),
        "created_at": delivery.created_at.to_string(),
        "attempt": delivery.attempt,
        "payload": payload(delivery.content_type(), delivery.payload()),
    })
}
