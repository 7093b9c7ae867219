//! What every envelope tells of an event, once, with its name in each.

use std::borrow::Cow;

use sendoff_core::Delivery;

use crate::template::{aggregate_type, tenant};

/// The names of one thing.
pub(super) struct Field {
    /// After the native prefix.
    pub(super) native: &'static str,
    /// As an attribute of CloudEvents.
    pub(super) cloud_events: &'static str,
}

const fn field(native: &'static str, cloud_events: &'static str) -> Field {
    Field { native, cloud_events }
}

/// What a delivery has of each.
pub(super) fn fields(delivery: &Delivery) -> impl Iterator<Item = (Field, Cow<'_, str>)> {
    let fact = delivery.fact();
    let occurred_at = delivery.occurred_at().to_string();
    let all = [
        (field("id", "id"), Some(delivery.id().to_string().into())),
        (field("type", "type"), Some(delivery.event_type().into())),
        (field("aggregate-type", "aggregatetype"), aggregate_type(delivery).map(Cow::Borrowed)),
        (field("aggregate-id", "subject"), delivery.aggregate_id().map(Cow::Borrowed)),
        (field("tenant", "tenant"), tenant(delivery).map(Cow::Borrowed)),
        (field("key", "partitionkey"), delivery.ordering_key().map(Cow::Borrowed)),
        // A time outside of the calendar has no date, and no other form is defined.
        (field("occurred-at", "time"), occurred_at.ends_with('Z').then(|| occurred_at.into())),
        (field("position", "position"), fact.map(|fact| fact.position.get().to_string().into())),
        (field("tags", "tags"), fact.and_then(|fact| tags(fact.tags()))),
        (
            field("correlation-id", "correlationid"),
            fact.and_then(|fact| Some(fact.fact.correlation_id()?.to_string().into())),
        ),
        (
            field("causation-id", "causationid"),
            fact.and_then(|fact| Some(fact.fact.causation_id()?.to_string().into())),
        ),
    ];
    // CloudEvents knows no empty attributes, and nobody misses one elsewhere.
    let there = all.into_iter().filter_map(|(field, value)| Some((field, value?)));
    there.filter(|(_, value): &(Field, Cow<'_, str>)| !value.is_empty())
}

/// As a JSON array of `key=value`, because a value may have any separator in it.
fn tags(tags: &sendoff_core::journal::Tags) -> Option<Cow<'static, str>> {
    let texts: Vec<&str> = tags.iter().map(|tag| tag.as_str()).collect();
    (!texts.is_empty()).then(|| serde_json::to_string(&texts).unwrap_or_default().into())
}
