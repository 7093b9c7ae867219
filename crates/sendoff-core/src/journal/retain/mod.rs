//! What of a journal may go: pure decisions.
//!
//! A fact may go when whoever follows the journal has passed it and the user does not want to keep it
//! any longer. Where the journal is in partitions, each holds a range of positions and goes as a
//! whole.

mod name;
mod plan;
mod release;

pub use name::{InvalidRangeName, RangeName};
pub use plan::{ExistingRange, PlannedRange, RangeSurvey, Ranges, below, to_drop, to_make};
pub use release::{Follower, Followers, HeldBy, Release, Wanted, release};
