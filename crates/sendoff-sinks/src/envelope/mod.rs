//! What of an event travels beside its payload, and under which names.
//!
//! [`Envelope::wrap`] turns a delivery into attributes and a body, purely; each sink's `encode.rs` puts these onto its wire.
//! What differs between wires (prefixes, characters, where the content type stands) is a [`Binding`].
//!
//! | | native | CloudEvents |
//! |---|---|---|
//! | id, type | `sendoff-id`, `sendoff-type` | `id`, `type` |
//! | aggregate | `sendoff-aggregate-type`, `sendoff-aggregate-id` | `aggregatetype`, `subject` |
//! | tenant, ordering key | `sendoff-tenant`, `sendoff-key` | `tenant`, `partitionkey` |
//! | when it happened | `sendoff-occurred-at` | `time` |
//! | of facts | `sendoff-position`, `sendoff-tags`, `sendoff-correlation-id`, `sendoff-causation-id` | `position`, `tags`, `correlationid`, `causationid` |
//! | – | | `specversion`, `source` |
//!
//! In every mode the event's own headers travel under their own names. A name of ours wins over one of its own, whatever
//! the case of its letters, so that nobody can say that an event is another. `traceparent` and `tracestate` are passed on
//! where they are well formed, and left out where they are not.
//!
//! Promise: in the native envelope and in CloudEvents' binary mode the body is the payload, to the byte, and no copy of it.
//! In structured mode a payload that is JSON is spliced in as it is, and everything else is base64, so that the bytes can
//! be had back either way.

mod binding;
mod cloud_events;
mod fields;
mod json;

use std::borrow::Cow;

use bytes::Bytes;
use sendoff_core::Delivery;
use sendoff_core::trace::{TRACEPARENT, TRACESTATE, TraceContext};
use serde::{Deserialize, Serialize};

use crate::class::Misconfigured;
use crate::template::{Template, Unrendered};

#[cfg(feature = "mqtt")]
pub(crate) use binding::is_mqtt_character;
pub use binding::{Binding, percent_encode};
pub use cloud_events::{CloudEventsOptions, Mode, SOURCE};
pub use json::{Lines, splice};

use fields::fields;

/// How events are wrapped, as it is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum EnvelopeOptions {
    /// Names of ours, and the payload as it is.
    #[default]
    Native,
    /// CloudEvents 1.0.
    CloudEvents(CloudEventsOptions),
}

/// How events are wrapped, checked.
#[derive(Debug, Clone)]
pub struct Envelope(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Native,
    CloudEvents { mode: Mode, source: Template },
}

impl EnvelopeOptions {
    /// Checks it; `path` is where it stands: `kafka.envelope`.
    pub fn check(&self, path: &str) -> Result<Envelope, Misconfigured> {
        Ok(Envelope(match self {
            Self::Native => Kind::Native,
            Self::CloudEvents(CloudEventsOptions { mode, source }) => {
                let wrong =
                    |error| Misconfigured::new(format!("{path}.cloud_events.source"), error);
                Kind::CloudEvents {
                    mode: *mode,
                    source: Template::parse(source, &SOURCE).map_err(wrong)?,
                }
            }
        }))
    }
}

/// An event as it goes onto a wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'d> {
    /// Names and values, as they stand on the wire.
    pub attributes: Vec<(Cow<'d, str>, Cow<'d, str>)>,
    /// The media type of the body. Among the attributes too, where the binding has a name for it.
    pub content_type: Cow<'d, str>,
    /// The payload, or what it was put into.
    pub body: Bytes,
}

impl Message<'_> {
    /// The value under this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_ref())
    }

    /// Bytes of names, values and body.
    pub fn size(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len());
        self.body.len() + attributes.sum::<usize>()
    }
}

impl Envelope {
    /// The mode, where it is CloudEvents.
    pub fn cloud_events(&self) -> Option<Mode> {
        match self.0 {
            Kind::Native => None,
            Kind::CloudEvents { mode, .. } => Some(mode),
        }
    }

    /// What of a delivery travels, and as what. A function of both alone.
    ///
    /// # Errors
    ///
    /// Poison: this wire can never carry something of the event, which is named.
    pub fn wrap<'d>(
        &self,
        delivery: &'d Delivery,
        binding: &Binding,
    ) -> Result<Message<'d>, Unfit> {
        let trace = TraceContext::of(delivery.headers());
        let mut message = match &self.0 {
            Kind::Native => native(delivery, binding),
            Kind::CloudEvents { mode: Mode::Binary, source } => {
                cloud_events::binary(delivery, binding, source, trace.as_ref())?
            }
            Kind::CloudEvents { mode: Mode::Structured, source } => {
                cloud_events::structured(delivery, binding, source, trace.as_ref(), Lines::Any)?
            }
        };
        for (name, value) in &mut message.attributes {
            // A media type is the wire's own, and has blanks.
            if Some(&**name) != binding.content_type {
                binding.encode(value);
            }
            binding.check(name, value)?;
        }
        if binding.content_type.is_none() {
            binding.check("content-type", &message.content_type)?;
        }
        let known = |message: &Message<'_>, name: &str| {
            message.attributes.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        if let Some(TraceContext { parent, state }) = trace {
            let state = state.map(|state| (TRACESTATE, state.to_string()));
            for (name, value) in [(TRACEPARENT, parent.to_string())].into_iter().chain(state) {
                if !known(&message, name) {
                    message.attributes.push((name.into(), value.into()));
                }
            }
        }
        // Attributes that are told from headers by nothing but their names.
        let is_bare = self.cloud_events() == Some(Mode::Binary) && binding.cloud_events.is_empty();
        for (name, value) in delivery.headers().iter() {
            let is_trace = [TRACEPARENT, TRACESTATE].iter().any(|of| name.eq_ignore_ascii_case(of));
            let name: Cow<'_, str> = match binding.own {
                "" => name.into(),
                prefix => format!("{prefix}{name}").into(),
            };
            if is_trace
                || known(&message, &name)
                || binding.is_ours(&name)
                || is_bare && cloud_events::is_known(&name)
            {
                continue;
            }
            binding.check(&name, value)?;
            message.attributes.push((name, value.into()));
        }
        Ok(message)
    }

    /// One line of JSON, for wires that carry nothing beside it: in the native envelope an object of ours, else the
    /// structured form of CloudEvents. No line break is in it.
    pub fn line(&self, delivery: &Delivery) -> Result<Vec<u8>, Unfit> {
        match &self.0 {
            Kind::Native => Ok(json::native_line(delivery)),
            Kind::CloudEvents { source, .. } => {
                let trace = TraceContext::of(delivery.headers());
                cloud_events::line(delivery, source, trace.as_ref())
            }
        }
    }
}

fn native<'d>(delivery: &'d Delivery, binding: &Binding) -> Message<'d> {
    let named = |suffix: &str| Cow::Owned(format!("{}{suffix}", binding.native));
    let mut attributes: Vec<_> =
        fields(delivery).map(|(field, value)| (named(field.native), value)).collect();
    let content_type = delivery.content_type();
    if let Some(name) = binding.content_type {
        attributes.push((name.into(), content_type.into()));
    }
    Message { attributes, content_type: content_type.into(), body: delivery.payload().clone() }
}

/// A wire can never carry something of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The name of a header or an attribute.
    #[error("{wire} cannot carry a header named {name:?}; a name takes {expected}")]
    Name {
        /// The wire.
        wire: &'static str,
        /// The header.
        name: String,
        /// What may be in a name.
        expected: &'static str,
    },
    /// The value of a header or an attribute.
    #[error("{wire} cannot carry the value of header {name:?}; a value takes {expected}")]
    Value {
        /// The wire.
        wire: &'static str,
        /// The header.
        name: String,
        /// What may be in a value.
        expected: &'static str,
    },
    /// A template has no text for it.
    #[error(transparent)]
    Unrendered(#[from] Unrendered),
}

#[cfg(test)]
mod tests;
