//! What of an event can stand in a template.

use std::borrow::Cow;
use std::fmt;

use sendoff_core::{Delivery, GLOBAL_AGGREGATE};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    Id,
    Type,
    AggregateType,
    AggregateId,
    Tenant,
    Key,
    Header(String),
    Tag(String),
    Position,
    CorrelationId,
    CausationId,
}

impl Field {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "id" => Self::Id,
            "type" => Self::Type,
            "aggregate_type" => Self::AggregateType,
            "aggregate_id" => Self::AggregateId,
            "tenant" => Self::Tenant,
            "key" => Self::Key,
            "position" => Self::Position,
            "correlation_id" => Self::CorrelationId,
            "causation_id" => Self::CausationId,
            other => match other.split_once('.')? {
                ("header", name) if !name.is_empty() => Self::Header(name.to_owned()),
                ("tag", key) if !key.is_empty() => Self::Tag(key.to_owned()),
                _ => return None,
            },
        })
    }

    /// What the event has of it.
    pub(super) fn of<'d>(&self, delivery: &'d Delivery) -> Option<Cow<'d, str>> {
        let fact = delivery.fact();
        match self {
            Self::Id => Some(delivery.id().to_string().into()),
            Self::Type => Some(delivery.event_type().into()),
            Self::AggregateType => aggregate_type(delivery).map(Cow::Borrowed),
            Self::AggregateId => delivery.aggregate_id().map(Cow::Borrowed),
            Self::Tenant => tenant(delivery).map(Cow::Borrowed),
            Self::Key => delivery.ordering_key().map(Cow::Borrowed),
            Self::Header(name) => delivery.headers().get(name).map(Cow::Borrowed),
            Self::Tag(key) => fact.and_then(|fact| fact.tags().value(key)).map(Cow::Borrowed),
            Self::Position => fact.map(|fact| fact.position.get().to_string().into()),
            Self::CorrelationId => id(fact?.fact.correlation_id()),
            Self::CausationId => id(fact?.fact.causation_id()),
        }
    }
}

fn id(id: Option<sendoff_core::EventId>) -> Option<Cow<'static, str>> {
    id.map(|id| id.to_string().into())
}

/// The kind of aggregate, where somebody gave one.
pub(crate) fn aggregate_type(delivery: &Delivery) -> Option<&str> {
    Some(delivery.aggregate_type()).filter(|name| *name != GLOBAL_AGGREGATE)
}

/// The tenant; a journal keeps it as a tag.
pub(crate) fn tenant(delivery: &Delivery) -> Option<&str> {
    delivery.tenant_id().or_else(|| delivery.fact()?.tags().value("tenant_id"))
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Id => "id",
            Self::Type => "type",
            Self::AggregateType => "aggregate_type",
            Self::AggregateId => "aggregate_id",
            Self::Tenant => "tenant",
            Self::Key => "key",
            Self::Position => "position",
            Self::CorrelationId => "correlation_id",
            Self::CausationId => "causation_id",
            Self::Header(name) => return write!(f, "header.{name}"),
            Self::Tag(key) => return write!(f, "tag.{key}"),
        })
    }
}
