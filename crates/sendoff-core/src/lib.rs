#![cfg_attr(docsrs, feature(doc_cfg))]
//! The vocabulary of Sendoff and its pure decisions.
//!
//! Promise: nothing here performs I/O or needs a runtime, and every decision (what follows a
//! failure, which lane is next, whether a name may go into SQL) is a total function of its
//! arguments. Clock and randomness enter as values.
//!
//! Not here: databases (see the store crates), tasks and queues (see `sendoff-engine`).

mod attempt;
mod audit;
mod checkup;
mod consumer;
mod delivery;
#[cfg(feature = "serde")]
pub mod duration;
mod event;
mod failure;
pub mod fair;
mod header;
mod hold;
mod id;
mod ident;
mod invalid;
pub mod journal;
pub mod lead;
mod letter;
pub mod limits;
mod name;
pub mod order;
pub mod partition;
mod pause;
mod replay;
mod retry;
mod shard;
mod sink;
mod status;
mod timestamp;
pub mod trace;

pub use async_trait::async_trait;
pub use attempt::{
    Attempt, Next, RetryBounds, Unroutable, Waited, WaitsFor, after_failure, after_unroutable,
};
pub use audit::{AuditAction, AuditNote, InvalidNote, UnknownAction};
pub use checkup::{OutboxCheckup, OutboxFinding, Undelivered};
pub use consumer::Consumer;
pub use delivery::{Delivery, Lane, Origin};
pub use event::{
    Event, EventBuilder, IntoEvent, StoredEvent, TypedEvent, Undecodable, UnreadableJson,
    Validation,
};
pub use failure::{BoxError, Failure, FailureClass, report};
pub use header::Headers;
pub use hold::{Holding, Token};
pub use id::{EventId, IdSource, InvalidId};
pub use ident::{Ident, InvalidIdent};
pub use invalid::InvalidEvent;
pub use letter::{
    Death, InvalidFilter, Letter, LetterAct, LetterCount, LetterFate, LetterFilter, LetterOrder,
    LetterPosition,
};
pub use name::{AggregateType, EventType, GLOBAL_AGGREGATE};
pub use pause::{InvalidPause, Pause, PauseScope, Paused};
pub use replay::{InvalidMark, ReplayFilter, ReplayMark, ReplayPosition};
pub use retry::{Exponential, Jitter, Linear, RetryPolicy};
pub use shard::{SHARDS, shard_of};
pub use sink::{Sink, Stopped, Verdict};
pub use status::{Status, UnknownStatus};
pub use timestamp::{InvalidTimestamp, Timestamp};
