//! Seeing and keeping: metrics, lag, retention, partitions.

mod cleanup;
mod lag;
mod metrics;
mod partitions;
mod upkeep;

pub use cleanup::{Cleaned, CleanupError, CleanupMaintainer, CleanupOptions};
pub use metrics::{CounterValues, Counters, Metrics, NoMetrics};
pub use partitions::{
    Maintained, PartitionError, PartitionMaintainer, PartitionOptions, PartitionReport, Skipped,
    WhySkipped,
};

pub(crate) use lag::Lag;
pub(crate) use metrics::Shielded;
pub(crate) use upkeep::Upkeep;
