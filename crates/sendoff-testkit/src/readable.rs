//! What people see who look at an outbox's table.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a store that failed it")]

use sendoff_core::{Event, Timestamp};

/// An event that has everything.
pub fn order() -> Event {
    Event::builder("order.placed")
        .aggregate("order", "4711")
        .tenant_id("acme")
        .ordering_key("order-4711")
        .header("source", "shop")
        .occurred_at(Timestamp::from_micros(-1))
        .json_text(r#"{"total":"1 €"}"#)
        .build()
        .expect("within all limits")
}

/// One whose payload is no text, and that has nothing besides.
pub fn scan() -> Event {
    Event::builder("scan").bytes(vec![0, 0xff]).build().expect("within all limits")
}

/// Holds S1: what the columns are called and what they contain, where the first row is the
/// [`order`] and the second the [`scan`].
///
/// `shown` are the texts of a column in all rows, and `own` what this database writes its own way.
pub async fn people_can_read_the_table(
    order: &Event,
    own: &[(&str, &str)],
    mut shown: impl AsyncFnMut(&str) -> Vec<Option<String>>,
) {
    let (id, shard) = (order.id().to_string(), order.shard().to_string());
    let everywhere = [
        ("event_id", &*id),
        ("event_type", "order.placed"),
        ("aggregate_type", "order"),
        ("aggregate_id", "4711"),
        ("tenant_id", "acme"),
        ("ordering_key", "order-4711"),
        ("shard", &shard),
        ("status", "NEW"),
        ("attempts", "0"),
        ("content_type", "application/json"),
        ("payload", r#"{"total":"1 €"}"#),
    ];
    for (column, expected) in everywhere.iter().chain(own) {
        assert_eq!(shown(column).await[0].as_deref(), Some(*expected), "{column}");
    }
    for empty in ["done_at", "last_error", "locked_by"] {
        assert!(shown(empty).await.iter().all(Option::is_none), "{empty}");
    }
    let bytes = shown("payload").await[1].as_deref().map(str::to_uppercase);
    assert_eq!(bytes.as_deref(), Some("00FF"));
    assert_eq!(shown("aggregate_type").await[1].as_deref(), Some("__GLOBAL__"));
    assert_eq!(shown("headers").await[1], None);
}
