//! Every parameter, as plain values with a default for everything. What outbox, relay and publishing have
//! in common is a group: [`RetryOptions`], [`HandlerOptions`], [`NodeOptions`]. Each is checked once, where
//! something is built from it, and an [`OptionsError`] names the field by its path.
//!
//! With the feature `serde` they can be read from files: keys that are not known are refused, what is
//! missing has its default, and durations are texts such as `250ms` or `5m`.

mod check;
mod circuit;
mod fair;
mod handler;
mod node;
mod outbox;
mod retry;

pub use check::OptionsError;
pub use circuit::CircuitOptions;
pub use fair::FairOptions;
pub use handler::HandlerOptions;
pub use node::NodeOptions;
pub use outbox::OutboxOptions;
pub use retry::RetryOptions;

pub(crate) use check::{
    LONGEST, MIB, MOST, MOST_BYTES, SHORTEST, SHORTEST_HOLD, check_counts, check_times,
};
