//! The program, as people and scripts meet it.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod cleanup;
mod consume_one;
mod demo;
mod doctor;
mod events;
mod journal;
mod keys;
mod migrate;
mod mysql;
mod partitions;
mod pause;
mod postgres;
mod program;
mod refusals;
mod replay;
mod retain;
