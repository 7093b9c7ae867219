//! The suite that every journal passes which can publish.
//!
//! A journal joins with a [`PublishHarness`] beside its [`JournalHarness`](super::JournalHarness), and
//! one line: [`publish_suite!`](crate::publish_suite).

pub mod cases;
mod harness;
mod rounds;
mod suite;

pub use harness::PublishHarness;
pub use rounds::Rounds;
