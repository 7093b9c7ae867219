//! Which partitions a table should have: pure planning, in UTC.
//!
//! A partition holds the rows created in one hour, one day or one month. What no partition covers falls into
//! the tail, which is never dropped.

mod name;
mod period;
mod plan;

pub use name::{InvalidPartitionName, PartitionName};
pub use period::Period;
pub use plan::{Existing, Plan, Planned, Policy, Survey, plan};
