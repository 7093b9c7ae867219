//! Events in batches, for consumers who want to hold them in their own hands.
//!
//! [`Consumer::fetch`] takes a [`Batch`] of due events; each is answered (`ack`, `fail`, `dead`) and
//! the batch is committed or rolled back. [`Relay`] does that in a loop, with workers and a handler,
//! and [`TopicWorker`] is a relay that routes by topic.
//!
//! Built from the engine's own parts: the claims, tokens, retry decisions and handlers are those of
//! an [`Outbox`](crate::Outbox), which is the better choice for delivery inside the writing process.
//!
//! Promise: what was not answered is put back exactly as it was, attempts and due time included. Not
//! here: the hot lane; order by key.

mod batch;
mod builder;
mod consumer;
mod delivery;
mod options;
mod progress;
mod routing;
mod runner;
mod running;
mod topic;

pub use batch::{Batch, BatchError, BatchReport};
pub use builder::RelayBuilder;
pub use consumer::{Consumer, RelayStore};
pub use options::{ClaimMode, RelayOptions};
pub use runner::Relay;
pub use running::Relaying;
pub use topic::{TopicStatus, TopicWorker, TopicWorkerBuilder};
