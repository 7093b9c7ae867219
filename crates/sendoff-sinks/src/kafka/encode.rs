//! An event as a record.

use bytes::Bytes;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use sendoff_core::{BoxError, Delivery};

use crate::envelope::{Binding, Envelope};
use crate::template::{Key, Shape, Template};

/// A topic.
pub static TOPIC: Shape = Shape {
    what: "topic",
    bytes: 249,
    takes: |c| c.is_ascii_alphanumeric() || "._-".contains(c),
    expected: "letters and digits of ASCII, dots, underscores and dashes",
    whole: |topic| match topic {
        "." | ".." => Err("is . or .."),
        _ => Ok(()),
    },
    ..Shape::TEXT
};

/// The key of a record: any text.
pub static KEY: Shape = Shape { what: "key", takes: |_| true, expected: "any text", ..Shape::TEXT };

/// How records are made.
#[derive(Debug)]
pub(super) struct Encode {
    pub(super) topic: Template,
    pub(super) key: Key,
    pub(super) envelope: Envelope,
}

/// A record, and where it goes.
pub(super) struct Outgoing {
    pub(super) topic: String,
    key: Option<String>,
    headers: OwnedHeaders,
    body: Bytes,
}

impl Encode {
    /// The record of an event. Its time is the broker's or the client's: one that is long ago would be let go by the topic's
    /// retention as soon as it is there.
    pub(super) fn record(&self, delivery: &Delivery) -> Result<Outgoing, BoxError> {
        let topic = self.topic.render(delivery)?;
        let key = self.key.of(delivery)?;
        let message = self.envelope.wrap(delivery, &Binding::KAFKA)?;
        let mut headers = OwnedHeaders::new_with_capacity(message.attributes.len());
        for (name, value) in &message.attributes {
            headers = headers.insert(Header { key: name, value: Some(&**value) });
        }
        Ok(Outgoing { topic, key, headers, body: message.body })
    }
}

impl Outgoing {
    /// As the client takes it, which copies it.
    pub(super) fn record(&self) -> FutureRecord<'_, str, [u8]> {
        FutureRecord {
            topic: &self.topic,
            partition: None,
            payload: Some(&self.body[..]),
            key: self.key.as_deref(),
            timestamp: None,
            headers: Some(self.headers.clone()),
        }
    }
}
