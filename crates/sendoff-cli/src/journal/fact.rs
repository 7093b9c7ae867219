use sendoff::journal::{Recorded, TailRow};
use serde_json::{Map, Value, json};

use crate::payload::payload;

/// A row of a journal for whoever reads lines of JSON.
pub(super) fn line(row: &TailRow) -> Value {
    match &row.recorded {
        Ok(recorded) => fact(recorded),
        Err(error) => json!({ "position": row.position, "error": error.to_string() }),
    }
}

fn fact(recorded: &Recorded) -> Value {
    let (fact, event) = (&recorded.fact, recorded.event());
    let headers: Map<String, Value> =
        event.headers().iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let tags: Vec<_> = recorded.tags().iter().map(|tag| tag.as_str()).collect();
    json!({
        "position": recorded.position,
        "recorded_at": recorded.recorded_at.to_string(),
        "event_id": fact.id().to_string(),
        "event_type": event.event_type(),
        "tags": tags,
        "occurred_at": event.occurred_at().to_string(),
        "correlation_id": fact.correlation_id().map(|id| id.to_string()),
        "causation_id": fact.causation_id().map(|id| id.to_string()),
        "headers": headers,
        "content_type": event.content_type(),
        "payload": payload(event.content_type(), event.payload()),
    })
}
