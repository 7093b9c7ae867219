//! An event as a message.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use sendoff_core::{BoxError, Delivery};

use crate::envelope::{Binding, Envelope};
use crate::template::{Shape, Template};

/// What outlives the server.
const PERSISTENT: u8 = 2;
/// What a header takes beside its name and its value, and what all that is no header takes, at most.
const PER_HEADER: usize = 6;
const BESIDE_HEADERS: usize = 1_024;

/// The name of an exchange. Empty, it is the server's own.
pub static EXCHANGE: Shape = Shape { what: "exchange", bytes: 255, empty: true, ..Shape::TEXT };
/// A routing key.
pub static ROUTING_KEY: Shape =
    Shape { what: "routing key", bytes: 255, empty: true, ..Shape::TEXT };

/// How messages are made.
#[derive(Debug)]
pub(super) struct Encode {
    pub(super) exchange: Template,
    pub(super) routing_key: Template,
    pub(super) envelope: Envelope,
}

/// A message, and where it goes.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) body: Bytes,
    /// What all but the body take, which has to fit into one frame.
    pub(super) header_bytes: usize,
}

impl Outgoing {
    /// The event's id, by which it is known when it comes back.
    pub(super) fn id(&self) -> Option<&ShortString> {
        self.properties.message_id().as_ref()
    }
}

impl Encode {
    /// Whether all events go to the same exchange with the same key.
    pub(super) fn is_constant(&self) -> bool {
        self.exchange.is_constant() && self.routing_key.is_constant()
    }

    /// The message of an event.
    pub(super) fn message(&self, delivery: &Delivery) -> Result<Outgoing, BoxError> {
        let exchange = short("exchange", self.exchange.render(delivery)?)?;
        let routing_key = short("routing key", self.routing_key.render(delivery)?)?;
        let wrapped = self.envelope.wrap(delivery, &Binding::AMQP)?;
        let mut headers = FieldTable::default();
        let mut header_bytes = BESIDE_HEADERS;
        for (name, value) in &wrapped.attributes {
            header_bytes += name.len() + value.len() + PER_HEADER;
            let name = short("name of a header", &**name)?;
            headers.insert(name, AMQPValue::LongString(value.as_bytes().into()));
        }
        let properties = BasicProperties::default()
            .with_message_id(short("id", delivery.id().to_string())?)
            .with_type(short("type", delivery.event_type())?)
            .with_content_type(short("content type", &*wrapped.content_type)?)
            .with_delivery_mode(PERSISTENT)
            .with_headers(headers);
        Ok(Outgoing { exchange, routing_key, properties, body: wrapped.body, header_bytes })
    }
}

/// A text that AMQP has a byte for the length of.
fn short(what: &'static str, text: impl Into<String>) -> Result<ShortString, TooLong> {
    let text = text.into();
    let bytes = text.len();
    ShortString::try_new(text).map_err(|_| TooLong { what, bytes })
}

#[derive(Debug, thiserror::Error)]
#[error("the {what} has {bytes} bytes; in AMQP 0-9-1 it can have 255")]
struct TooLong {
    what: &'static str,
    bytes: usize,
}
