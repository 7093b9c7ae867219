use sendoff::Delivery;
use serde_json::{Value, json};

/// An event for whoever reads lines of JSON. The payload is JSON where it is, text where it is that,
/// and hexadecimal digits otherwise; a command gets the very bytes.
pub(super) fn line(delivery: &Delivery) -> Value {
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
        "payload": payload(delivery),
    })
}

fn payload(delivery: &Delivery) -> Value {
    let bytes = delivery.payload();
    if delivery.content_type().contains("json")
        && let Ok(value) = serde_json::from_slice(bytes)
    {
        return value;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
}
