//! The checker and the suites, put to the test.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod broker;
mod history;
mod memory;
mod outside;
mod sim;
