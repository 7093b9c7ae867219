#![cfg_attr(docsrs, feature(doc_cfg))]
//! Moves events from a committed transaction to their handlers.
//!
//! Promise: a handler runs only for a row this process holds, and a row is settled only by who holds
//! it. The folders are the way of an event: [`capture`], `source`, `dispatch`, [`sink`],
//! `settle`, `operate`; [`lead`] says which node works on what; [`store`] is what they ask of a database.
//!
//! Not here: SQL (see the store crates), pure decisions (see `sendoff-core`).

mod appetite;
mod builder;
pub mod capture;
mod clock;
mod dispatch;
mod engine;
mod inbox;
pub mod journal;
pub mod lead;
mod lock;
pub mod memory;
mod operate;
mod options;
mod outbox;
mod owner;
mod rarely;
pub mod relay;
mod settle;
mod settle_in;
pub mod sink;
mod source;
pub mod store;
mod told;
mod until;
mod weight;

pub use builder::Builder;
pub use clock::{Clock, SystemClock, TokioClock};
pub use dispatch::{DuplicateHandler, Handlers, NoHandler, RegisterError, Registration};
pub use engine::Closed;
pub use inbox::{Inbox, OnceError, ProcessError, Processed};
#[cfg(feature = "prometheus")]
pub use operate::PrometheusMetrics;
pub use operate::{
    Audit, AwaitError, Awaited, CaughtUp, CheckupStore, Cleaned, CleanupError, CleanupMaintainer,
    CleanupOptions, CountedPair, CountedRun, CounterValues, Counters, DeadLetters, HandlerRun,
    KeysError, LetterSweep, Letters, LettersError, Maintained, Metrics, NoMetrics, OnReplayFailure,
    OrderKeys, ParkedKeys, PartitionError, PartitionMaintainer, PartitionOptions, PartitionReport,
    Replay, ReplayError, ReplayFailure, ReplayFault, ReplayOptions, ReplayRefused, Replayed,
    RunOutcome, ShownEvent, Skipped, SweepError, SweepOptions, Swept, WhySkipped, checkup,
};
pub use options::{
    CircuitOptions, FairOptions, HandlerOptions, NodeOptions, OptionsError, OutboxOptions,
    RetryOptions,
};
pub use outbox::{Outbox, OutboxBuilder, StartError, WeakOutbox};
pub use settle_in::SettleInError;
pub use sink::{
    After, AnyHandler, Before, Blocking, EventHandler, FanOut, Handler, HandlerResult, Interceptor,
    Limited, Paced, Rate, Tracer, at_most, blocking, deadline, fan_out, paced,
};
pub use source::LaneDepths;
