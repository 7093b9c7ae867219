//! Seeing and keeping: metrics, lag, retention, partitions, dead letters.

mod awaiting;
mod burst;
mod cleanup;
mod counters;
mod doctor;
mod keys;
mod labels;
mod lag;
mod letters;
mod metrics;
mod observer;
mod partitions;
mod pausing;
#[cfg(feature = "prometheus")]
mod prometheus;
mod replay;
mod streak;
mod upkeep;

pub use awaiting::{AwaitError, Awaited, CaughtUp};
pub use cleanup::{Cleaned, CleanupError, CleanupMaintainer, CleanupOptions};
pub use counters::{CountedPair, CountedRun, CounterValues, Counters};
pub use doctor::{CheckupStore, checkup};
pub use keys::{KeysError, OrderKeys, ParkedKeys};
pub use letters::{
    Audit, DeadLetters, LetterSweep, Letters, LettersError, ShownEvent, SweepError, SweepOptions,
    Swept,
};
pub use metrics::{HandlerRun, Metrics, NoMetrics, RunOutcome};
pub use partitions::{
    Maintained, PartitionError, PartitionMaintainer, PartitionOptions, PartitionReport, Skipped,
    WhySkipped,
};
#[cfg(feature = "prometheus")]
pub use prometheus::PrometheusMetrics;
pub use replay::{
    OnReplayFailure, Replay, ReplayError, ReplayFailure, ReplayFault, ReplayOptions, ReplayRefused,
    Replayed,
};

pub(crate) use awaiting::{LookTimes, SharedAnswer, Together, Waiters, answered, passed};
pub(crate) use burst::Bursts;
pub(crate) use lag::Lag;
pub(crate) use observer::Observer;
pub(crate) use streak::{Failed, Streak};
pub(crate) use upkeep::Upkeep;
