//! What became of each delivery, written back: batched, fenced, and in one order.

mod batch;
mod queue;
mod writer;

pub(crate) use queue::{Completion, Completions, completions};
pub(crate) use writer::{Pace, SettleWriter};
