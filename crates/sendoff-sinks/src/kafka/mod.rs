//! Kafka.
//!
//! Each event is a record of the topic that a template says, under a key that is its ordering key unless told otherwise. The
//! client is librdkafka, which is built along.
//!
//! Promise: an event is done when all in-sync replicas have it (`acks=all`), by its own delivery report. The producer is
//! idempotent: what it sends again by itself is there once, and in order within a key. A key lands in the partition that
//! Java's producer chooses for it (murmur2).
//!
//! A record that is not confirmed within its time is unknown, and sent again under the same id: Kafka drops duplicates of one
//! producer only, so that a consumer knows such an event by `sendoff-id` (`ce_id`). A producer that met a fatal error is of no
//! use any more, and another takes its place.
//!
//! A topic is looked up before its first record, because to the client a topic that is not there looks like an outage. Brokers
//! answer for a batch of records at once: where one of them is too large for a topic, each is sent again alone, so that it
//! fails alone.
//!
//! Not here: transactions, consumers, and topics that are made by other means than the brokers' own `auto.create.topics.enable`.

mod answer;
mod connect;
mod encode;
mod options;
mod properties;
mod sink;

pub use encode::{KEY, TOPIC};
pub use options::{KafkaAuth, KafkaOptions, SaslMechanism};
pub use sink::KafkaSink;
