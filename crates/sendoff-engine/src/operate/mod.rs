//! Seeing and keeping: metrics, retention.

mod metrics;
mod upkeep;

pub use metrics::{CounterValues, Counters, Metrics, NoMetrics};

pub(crate) use upkeep::Upkeep;
