//! An event as a message.

use rumqttc::mqttbytes::QoS;
use rumqttc::mqttbytes::v5::{Publish, PublishProperties};
use sendoff_core::{BoxError, Delivery};

use crate::envelope::{Binding, Envelope, is_mqtt_character};
use crate::template::{Shape, Template};

/// A topic to publish to. Nobody's data makes one of the broker's own, which begin with `$`, or a filter of many.
pub static TOPIC: Shape = Shape {
    what: "topic",
    bytes: 65_535,
    takes: |c| is_mqtt_character(c) && c != '+' && c != '#',
    expected: "anything but control characters, what is no character, + and #",
    whole: |topic| match topic {
        _ if topic.starts_with('$') => Err("begins with $, as the broker's own do"),
        _ => Ok(()),
    },
    ..Shape::TEXT
};

/// How messages are made.
#[derive(Debug)]
pub(super) struct Encode {
    pub(super) topic: Template,
    pub(super) retain: bool,
    pub(super) envelope: Envelope,
}

impl Encode {
    /// The message of an event.
    pub(super) fn message(&self, delivery: &Delivery) -> Result<Publish, BoxError> {
        let topic = self.topic.render(delivery)?;
        let wrapped = self.envelope.wrap(delivery, &Binding::MQTT)?;
        let own = |(name, value): (_, _)| (String::from(name), String::from(value));
        let properties = PublishProperties {
            content_type: Some(wrapped.content_type.into_owned()),
            user_properties: wrapped.attributes.into_iter().map(own).collect(),
            ..PublishProperties::default()
        };
        let mut message = Publish::new(topic, QoS::AtLeastOnce, wrapped.body, Some(properties));
        message.retain = self.retain;
        // Whichever it becomes, it is counted with the packet's bytes.
        message.pkid = 1;
        Ok(message)
    }
}

/// The bytes of the packet that a message becomes.
pub(super) fn packet_bytes(message: &Publish) -> usize {
    message.size()
}

#[cfg(test)]
mod tests {
    use sendoff_core::{Event, Lane, Origin, Timestamp};

    use super::*;
    use crate::envelope::EnvelopeOptions;

    /// Also where the length of the length changes.
    #[test]
    fn a_packet_has_as_many_bytes_as_were_counted() {
        let topic = Template::parse("a", &TOPIC).unwrap();
        let envelope = EnvelopeOptions::Native.check("mqtt.envelope").unwrap();
        let encode = Encode { topic, retain: false, envelope };
        for bytes in 16_000..16_500 {
            let event = Event::builder("e").bytes(vec![b'x'; bytes]).build().unwrap();
            let origin = Origin::Row(Lane::Cold);
            let delivery = Delivery { event, created_at: Timestamp::now(), attempt: 1, origin };
            let mut message = encode.message(&delivery).unwrap();
            let counted = packet_bytes(&message);
            message.pkid = 7;
            assert_eq!(counted, message.size(), "{bytes}");
        }
    }

    #[test]
    fn a_topic_is_no_filter_and_none_of_the_brokers_own() {
        for wrong in ["", "a/+", "a/#", "#", "$SYS/x", "a\0", "a\n", "a\u{ffff}"] {
            assert!(Template::parse(wrong, &TOPIC).is_err(), "{wrong:?}");
        }
        for right in ["a", "/a//b", "events/{type}", "é a/$b"] {
            assert!(Template::parse(right, &TOPIC).is_ok(), "{right:?}");
        }
    }
}
