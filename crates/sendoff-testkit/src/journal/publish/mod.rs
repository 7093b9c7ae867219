//! The suite that every journal passes which can publish.
//!
//! A journal joins with a [`PublishHarness`] beside its [`JournalHarness`](super::JournalHarness), and
//! one line: [`publish_suite!`](crate::publish_suite).

pub mod cases;
pub mod failover;
mod harness;
mod rounds;
mod suite;

pub use harness::{Projecting, PublishHarness, losing_after};
pub use rounds::Rounds;
