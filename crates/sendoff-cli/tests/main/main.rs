//! The program, as people and scripts meet it.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod cleanup;
mod demo;
mod migrate;
mod partitions;
mod postgres;
mod program;
mod refusals;
