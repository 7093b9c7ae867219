//! Every sink on its real target, by the suite that all of them pass.
//!
//! `cargo test -p sendoff-sinks --features full --test main NAME::` runs one sink's.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

#[cfg(any(
    feature = "kafka",
    feature = "mqtt",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis"
))]
mod delivery;
#[cfg(feature = "file")]
mod file;
mod graph;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod soak;
#[cfg(feature = "webhook-tls")]
mod tls;
#[cfg(feature = "webhook")]
mod webhook;
