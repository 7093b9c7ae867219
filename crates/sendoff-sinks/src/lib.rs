#![cfg_attr(docsrs, feature(doc_cfg))]
//! Where events go: sinks that are ready to be used, and what sinks are made of.
//!
//! | feature | sink |
//! |---|---|
//! | `file` | [`file`](mod@file): JSON lines to stdout or to a file that rotates |
//! | `kafka`, `kafka-tls` | [`kafka`]: Kafka, by librdkafka |
//! | `mqtt`, `mqtt-tls` | [`mqtt`]: MQTT 5 |
//! | `nats` | [`nats`]: NATS JetStream |
//! | `rabbitmq`, `rabbitmq-tls` | [`rabbitmq`]: RabbitMQ |
//! | `redis`, `redis-tls` | [`redis`](mod@redis): Redis Streams |
//! | `webhook`, `webhook-tls` | [`webhook`]: signed requests over HTTP, and over HTTPS |
//!
//! A sink is started from its options, given to whatever delivers, and closed after that:
//!
#![cfg_attr(feature = "file", doc = "```")]
#![cfg_attr(not(feature = "file"), doc = "```ignore")]
//! use sendoff_core::{Delivery, Event, Lane, Origin, Sink, Timestamp};
//! use sendoff_sinks::file::{FileOptions, FileSink};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("events.jsonl");
//! let sink = FileSink::start(FileOptions::path(&path)).await?;
//! // Outbox::builder(store).on_any_sink(sink.clone())           an outbox, and a topic worker
//! // Relay::builder(store).build_to(sink.clone())               a relay
//! // journal.publish().pair(&topic, Arc::new(sink.clone()))     a publisher of a journal
//! # let event = Event::json("order.placed", &990)?;
//! # let origin = Origin::Row(Lane::Hot);
//! # let delivery = Delivery { event, created_at: Timestamp::now(), attempt: 1, origin };
//! # assert!(sink.deliver(&[delivery]).await[0].is_ok());
//! assert!(sink.close().await);
//! # assert!(std::fs::read_to_string(&path)?.ends_with("\"data\":990}\n"));
//! # Ok(())
//! # }
//! ```
//!
//! What all of them share, for sinks of your own too:
//!
//! - [`template`]: destinations and keys made of an event's fields.
//! - [`envelope`]: which attributes travel with the payload, under which names on which wire.
//! - [`class`]: unavailable, refused now, poison, misconfigured.
//! - [`link`]: the connection, its back-off and deadlines, and the verdicts of a batch.
//!
//! Promise: *done* means durable at the target. Each event of a batch has its own verdict: one that the target can never
//! take fails alone. Facts of a journal go one after the other, and those after one that was not taken are not tried. What the
//! target did not answer is delivered again under the same id. Nothing of a payload, of the
//! value of a header, or of a secret is in an error or in the log.
//!
//! Not here: stores, which sinks never see; circuits, retries and what an application pauses (see `sendoff-engine`).

pub mod class;
pub mod envelope;
#[cfg(feature = "file")]
pub mod file;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod link;
#[cfg(feature = "mqtt")]
pub mod mqtt;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;
mod secret;
pub mod template;
#[cfg(feature = "webhook")]
pub mod webhook;

pub use class::{Class, Misconfigured, Trouble};
pub use secret::Secret;
