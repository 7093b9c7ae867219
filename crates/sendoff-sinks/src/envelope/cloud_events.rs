//! CloudEvents 1.0, by hand: a library would write the payload anew.

use std::borrow::Cow;

use sendoff_core::Delivery;
use sendoff_core::trace::{TRACEPARENT, TRACESTATE, TraceContext};
use serde::{Deserialize, Serialize};

use super::binding::{Binding, percent_encode};
use super::fields::fields;
use super::json::{Lines, Object};
use super::{Message, Unfit};
use crate::template::{Shape, Template};

/// The media type of the structured mode.
const STRUCTURED: &str = "application/cloudevents+json";

/// How CloudEvents are made, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudEventsOptions {
    /// Attributes beside the payload, or around it. Beside.
    #[serde(default)]
    pub mode: Mode,
    /// The attribute `source`, a template of a URI reference: `/shop/{aggregate_type|none}`. With the id it is what
    /// consumers tell events apart by, so there is no default.
    pub source: String,
}

impl CloudEventsOptions {
    /// Attributes beside the payload.
    pub fn binary(source: impl Into<String>) -> Self {
        Self { mode: Mode::Binary, source: source.into() }
    }

    /// Attributes around the payload.
    pub fn structured(source: impl Into<String>) -> Self {
        Self { mode: Mode::Structured, source: source.into() }
    }
}

/// Where the attributes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Beside the payload, which is the body.
    #[default]
    Binary,
    /// With the payload in one JSON object.
    Structured,
}

/// The shape of the attribute `source`.
pub const SOURCE: Shape = Shape {
    what: "source",
    takes: |c| c.is_ascii_graphic() && !r#""<>\^`{|}"#.contains(c),
    expected: "what a URI reference may have",
    encode: Some(percent_encode),
    ..Shape::TEXT
};

/// Every attribute but the content type.
fn attributes<'d>(
    delivery: &'d Delivery,
    source: &Template,
    trace: Option<&TraceContext>,
) -> Result<Vec<(&'static str, Cow<'d, str>)>, Unfit> {
    let mut all = vec![("specversion", "1.0".into()), ("source", source.render(delivery)?.into())];
    all.extend(fields(delivery).map(|(field, value)| (field.cloud_events, value)));
    if let Some(TraceContext { parent, state }) = trace {
        all.push((TRACEPARENT, parent.to_string().into()));
        all.extend(state.as_ref().map(|state| (TRACESTATE, state.to_string().into())));
    }
    Ok(all)
}

pub(super) fn binary<'d>(
    delivery: &'d Delivery,
    binding: &Binding,
    source: &Template,
    trace: Option<&TraceContext>,
) -> Result<Message<'d>, Unfit> {
    let named = |name: &'static str| match binding.cloud_events {
        "" => Cow::Borrowed(name),
        prefix => Cow::Owned(format!("{prefix}{name}")),
    };
    let attributes = attributes(delivery, source, trace)?;
    let mut attributes: Vec<_> =
        attributes.into_iter().map(|(name, value)| (named(name), value)).collect();
    let content_type = Cow::Borrowed(delivery.content_type());
    if let Some(name) = binding.data_content_type {
        attributes.push((name.into(), content_type.clone()));
    }
    Ok(Message { attributes, content_type, body: delivery.payload().clone() })
}

pub(super) fn structured<'d>(
    delivery: &'d Delivery,
    binding: &Binding,
    source: &Template,
    trace: Option<&TraceContext>,
    lines: Lines,
) -> Result<Message<'d>, Unfit> {
    let content_type = binding.content_type.map(|name| (name.into(), STRUCTURED.into()));
    Ok(Message {
        attributes: content_type.into_iter().collect(),
        content_type: STRUCTURED.into(),
        body: object(delivery, source, trace, lines)?.into(),
    })
}

/// The structured form in one line.
pub(super) fn line(
    delivery: &Delivery,
    source: &Template,
    trace: Option<&TraceContext>,
) -> Result<Vec<u8>, Unfit> {
    object(delivery, source, trace, Lines::One)
}

fn object(
    delivery: &Delivery,
    source: &Template,
    trace: Option<&TraceContext>,
    lines: Lines,
) -> Result<Vec<u8>, Unfit> {
    let attributes = attributes(delivery, source, trace)?;
    let mut object = Object::new(delivery.payload().len());
    for (name, value) in &attributes {
        object.text(name, value);
    }
    // Whoever keeps the object alone has the headers whose names CloudEvents allows.
    let taken = |name: &str| {
        [TRACEPARENT, TRACESTATE].contains(&name)
            || attributes.iter().any(|(known, _)| *known == name)
            || is_known(name)
    };
    for (name, value) in delivery.headers().iter() {
        if is_name(name) && !taken(name) && !value.is_empty() {
            object.text(name, value);
        }
    }
    if !delivery.content_type().is_empty() {
        object.text("datacontenttype", delivery.content_type());
    }
    Ok(object.with_data(delivery, lines))
}

/// Attributes of ours that this event may lack, and those of its data: a header never stands for one of them.
const KNOWN: [&str; 12] = [
    "data",
    "datacontenttype",
    "dataschema",
    "aggregatetype",
    "subject",
    "tenant",
    "partitionkey",
    "time",
    "position",
    "tags",
    "correlationid",
    "causationid",
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// What an attribute may be called.
fn is_name(name: &str) -> bool {
    (1..=20).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}
