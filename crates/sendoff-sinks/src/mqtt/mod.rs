//! MQTT 5.
//!
//! Each event is a message of QoS 1 on the topic that a template says. Attributes of its envelope, and its own headers, are
//! user properties; its payload is as it is. MQTT has no message ids that last: a consumer knows an event by `sendoff-id`
//! (`id` in CloudEvents).
//!
//! Promise: an event is done when the broker has acknowledged it (PUBACK); one that nobody subscribes to is done too. How
//! long a message lasts then is the broker's: Mosquitto keeps what waits for a subscriber in memory, and writes it when it
//! ends in good order and every half hour, so that what it acknowledged can be lost when it is killed.
//!
//! The messages of a batch are sent in its order on one connection, and a broker passes on those of one topic in that order.
//!
//! A connection that is lost is given up, with all that its client still had to send. What was in flight is unknown, and sent
//! again over the next one under the same id. Where the broker ended a connection because of a message, and not which it was,
//! messages are sent one at a time until that is known, so that the one event fails alone.
//!
//! Not here: MQTT 3.1.1, whose acknowledgements cannot say no; QoS 0 and 2; WebSockets; subscriptions.

mod answer;
mod connect;
mod encode;
mod options;
mod sink;

pub use encode::TOPIC;
pub use options::{MqttAuth, MqttOptions};
pub use sink::MqttSink;
