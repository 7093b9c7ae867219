//! Retention: what everybody who follows the journal has passed, and nobody wants to keep, goes.
//!
//! Promise: nothing goes that a cursor has not passed, whatever the state of its pair, nor what a
//! pair has parked, nor what the user wants to keep; appends go on meanwhile, and wait for a moment
//! at most.
//!
//! Not here: what may go and which partitions there should be (see [`sendoff_core::journal::retain`]),
//! SQL (see the store crates).

mod maintainer;
mod memory;
mod options;
mod report;
mod store;

pub use maintainer::JournalMaintainer;
pub use options::RetainOptions;
pub use report::{RetainError, RetainReport, Retained, SkippedRange};
pub use store::{
    Fate, Keeping, Leaving, PurgeFacts, PurgedFacts, RangeSession, RangeTable, RetainJournalStore,
};
