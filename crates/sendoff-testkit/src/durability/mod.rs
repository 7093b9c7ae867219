//! What a commit is worth when a link or a server goes down.
//!
//! A driver joins with a [`LinkHarness`] and `link_suite!(harness)`, which breaks its connection around COMMIT;
//! a store with an [`OwnServer`] and `server_suite!(server)`, which kills the server under it and starts it
//! again.
#![allow(
    async_fn_in_trait,
    reason = "cases await what they call, and a blocking driver is not Send"
)]

mod harness;
mod link;
mod server;
mod suite;

pub use async_trait::async_trait;
pub use harness::{LinkHarness, OwnServer, Remote, Served, commit_in};
pub use link::Broken;
pub use suite::cases;
