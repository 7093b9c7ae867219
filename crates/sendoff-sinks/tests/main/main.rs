//! Every sink on its real target, by the suite that all of them pass.
//!
//! `cargo test -p sendoff-sinks --features full --test main NAME::` runs one sink's.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

#[cfg(feature = "file")]
mod file;
mod graph;
#[cfg(any(feature = "nats", feature = "redis"))]
mod killed;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "webhook")]
mod webhook;
