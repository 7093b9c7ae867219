//! Seeing and keeping: metrics, lag, retention.

mod lag;
mod metrics;
mod upkeep;

pub use metrics::{CounterValues, Counters, Metrics, NoMetrics};

pub(crate) use lag::Lag;
pub(crate) use metrics::Shielded;
pub(crate) use upkeep::Upkeep;
