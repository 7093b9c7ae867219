//! Moves events from a committed transaction to their handlers.
//!
//! Promise: a handler runs only for a row this process holds, and a row is settled only by who holds
//! it. The folders are the way of an event: [`capture`], `handover`, `dispatch`, `settle`,
//! `operate`; [`store`] is what they ask of a database.
//!
//! Not here: SQL (see the store crates), pure decisions (see `sendoff-core`).

mod appetite;
pub mod capture;
mod clock;
mod dispatch;
mod engine;
mod handover;
pub mod journal;
mod lock;
pub mod memory;
mod operate;
mod options;
mod outbox;
mod owner;
pub mod relay;
mod settle;
pub mod store;
mod until;
mod weight;

pub use clock::{Clock, SystemClock, TokioClock};
pub use dispatch::{
    After, AnyHandler, Before, Blocking, DuplicateListener, Handler, HandlerResult, Interceptor,
    Listeners, NoListener, blocking,
};
pub use engine::Closed;
pub use handover::LaneDepths;
pub use operate::{
    Cleaned, CleanupError, CleanupMaintainer, CleanupOptions, CounterValues, Counters, Maintained,
    Metrics, NoMetrics, PartitionError, PartitionMaintainer, PartitionOptions, PartitionReport,
    Skipped, WhySkipped,
};
pub use options::{OptionsError, OutboxOptions};
pub use outbox::{Outbox, OutboxBuilder, StartError};
