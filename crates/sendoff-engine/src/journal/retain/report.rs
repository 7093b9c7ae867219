//! What a pass of a journal's retention did, left for later, or failed at.

use sendoff_core::journal::Position;
use sendoff_core::journal::retain::{RangeName, Release};
use tracing::warn;

use super::store::RangeTable;
use crate::operate::WhySkipped;
use crate::store::StoreError;

/// How a pass went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retained {
    /// This maintainer did it.
    Here(RetainReport),
    /// Another maintainer was at work on the partitions, and this one did nothing.
    Elsewhere,
}

/// What a pass did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetainReport {
    /// What may go, and who holds the rest.
    pub release: Release,
    /// Facts deleted one by one.
    pub facts: u64,
    /// Transactions that deleted them.
    pub batches: u64,
    /// Partitions made.
    pub made: Vec<(RangeTable, RangeName)>,
    /// Rows of the tail that moved into them.
    pub moved: u64,
    /// Partitions of facts that are gone.
    pub dropped: Vec<RangeName>,
    /// Tables that partitions of facts are kept as.
    pub archived: Vec<String>,
    /// What was left for the next time, and why.
    pub skipped: Vec<SkippedRange>,
    /// The lowest position of a fact that is in the tail: no partition was made for it in time. It is
    /// found like any other, and goes once it has a partition.
    pub in_tail: Option<Position>,
    /// Whether everything was done that could be.
    pub finished: bool,
}

/// A partition that was left as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedRange {
    /// Of which table.
    pub table: RangeTable,
    /// Which.
    pub name: RangeName,
    /// Why.
    pub why: WhySkipped,
}

impl RetainReport {
    pub(super) fn skip(&mut self, table: RangeTable, name: RangeName, why: WhySkipped) {
        warn!(%table, partition = %name, %why, "partition left as it is");
        self.skipped.push(SkippedRange { table, name, why });
    }
}

/// A pass that failed half-way.
#[derive(Debug, thiserror::Error)]
#[error(
    "retention failed after {} facts were deleted and {} partitions taken out",
    so_far.facts,
    so_far.dropped.len() + so_far.archived.len()
)]
pub struct RetainError {
    /// What it had done by then, committed.
    pub so_far: Box<RetainReport>,
    /// What went wrong.
    pub source: StoreError,
}
