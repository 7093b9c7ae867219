//! The program, as people and scripts meet it.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod consume_one;
mod demo;
mod migrate;
mod program;
mod refusals;
