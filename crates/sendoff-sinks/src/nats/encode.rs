//! An event as a message.

use async_nats::jetstream::message::PublishMessage;
use async_nats::{HeaderMap, Subject};
use sendoff_core::{BoxError, Delivery};

use crate::envelope::{Binding, Envelope};
use crate::template::Template;

/// In front of what is an instruction to the server.
const SERVERS_OWN: &str = "nats-";

/// A message, and where it goes.
pub(super) struct Outgoing {
    pub(super) subject: Subject,
    pub(super) message: PublishMessage,
}

/// The message of an event, for this stream and no other.
pub(super) fn message(
    subject: &Template,
    envelope: &Envelope,
    stream: &str,
    delivery: &Delivery,
) -> Result<Outgoing, BoxError> {
    let subject = subject.render(delivery)?;
    // Of this event on this subject: with the event's id alone, one that another sink has put on another subject of the
    // same stream would be dropped as if it were there already, and acknowledged.
    let id = format!("{}/{subject}", delivery.id());
    let wrapped = envelope.wrap(delivery, &Binding::NATS)?;
    let mut headers = HeaderMap::new();
    // The binding has seen to it that the client takes each of them.
    for (name, value) in &wrapped.attributes {
        let begin = name.get(..SERVERS_OWN.len());
        if !begin.is_some_and(|begin| begin.eq_ignore_ascii_case(SERVERS_OWN)) {
            headers.insert(&**name, &**value);
        }
    }
    let message = PublishMessage::build().payload(wrapped.body).headers(headers);
    let message = message.message_id(id).expected_stream(stream);
    Ok(Outgoing { subject: subject.into(), message })
}
