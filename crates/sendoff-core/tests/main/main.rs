//! The rules of an event, as a user of the crate meets them.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod defaults;
mod delay;
mod headers;
mod journal;
mod partitions;
mod payload;
mod secrecy;
mod shorthands;
mod texts;
