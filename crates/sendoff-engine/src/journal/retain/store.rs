//! What retention asks of a database.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::journal::Position;
use sendoff_core::journal::retain::{Followers, PlannedRange, RangeName, RangeSurvey};

use crate::journal::store::JournalStore;
use crate::store::{Bounds, Created, Dropped, StoreError};

/// A journal from which facts can go.
#[async_trait]
pub trait RetainJournalStore: JournalStore {
    /// Where everybody is, seen in one snapshot: a cursor that moved on, and what it parked, are
    /// seen together.
    async fn followers(&self) -> Result<Followers, StoreError>;

    /// How facts go from here.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) for partitions that cannot be kept from here.
    async fn keeping(&self) -> Result<Keeping, StoreError>;

    /// Deletes facts and their tags, the lowest positions first, in one short transaction.
    ///
    /// Whoever follows the journal is asked again in the same transaction, so that a cursor that was
    /// put back meanwhile is respected. Facts of transactions that are not over stay.
    async fn purge_facts(&self, purge: &PurgeFacts) -> Result<PurgedFacts, StoreError>;

    /// How many facts a purge without its limits would delete, counted up to its limit.
    async fn purgeable_facts(&self, purge: &PurgeFacts) -> Result<u64, StoreError>;
}

/// How facts go.
#[derive(Debug)]
pub enum Keeping {
    /// One by one.
    Rows,
    /// With the partition they are in; the session is this maintainer's alone.
    Ranges(Box<dyn RangeSession>),
    /// Another maintainer keeps the partitions at this moment.
    Elsewhere,
}

/// Which facts to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeFacts {
    /// Above this position: what was looked at before need not be looked at again.
    pub after: Position,
    /// Up to this one, which is included.
    pub up_to: Position,
    /// Recorded before this time, where there is one.
    pub before: Option<Timestamp>,
    /// Not more than this.
    pub limit: usize,
}

/// What is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PurgedFacts {
    /// How many.
    pub facts: u64,
    /// The last of them; the start where there was none.
    pub last: Position,
}

/// Which table of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeTable {
    /// The facts.
    Facts,
    /// Where they are found by their tags.
    Tags,
}

impl fmt::Display for RangeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Facts => "facts",
            Self::Tags => "tags",
        })
    }
}

/// What becomes of a partition that is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Fate {
    /// It is dropped.
    #[default]
    Drop,
    /// It stays as a table of its own, with its facts and their tags, which the journal knows no more.
    Archive,
}

/// A partition of facts that is out of the journal, and whose ids are still remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Which.
    pub name: RangeName,
    /// What becomes of it.
    pub fate: Fate,
}

/// The lock of maintenance, and the session that holds it. Dropping it ends the session, and with it
/// the lock and whatever was half done.
#[async_trait]
pub trait RangeSession: Send + fmt::Debug {
    /// The partitions of a table.
    async fn survey(&mut self, table: RangeTable) -> Result<RangeSurvey, StoreError>;

    /// Makes a partition; rows of the tail that belong to it move into it in the same transaction.
    ///
    /// One that is far enough ahead of the appends keeps none of them waiting.
    async fn make(
        &mut self,
        table: RangeTable,
        planned: &PlannedRange,
        bounds: Bounds,
    ) -> Result<Created, StoreError>;

    /// Whether a fact of a partition was recorded at this time or later. Times nearly rise with the
    /// positions, and after a clock was wrong they do not.
    async fn holds_since(&mut self, name: RangeName, time: Timestamp) -> Result<bool, StoreError>;

    /// Takes a partition out of the journal; one of tags, which go only where no fact
    /// is any more, is gone then. For one of facts, whoever follows the journal is asked again under the
    /// lock: [`Dropped::Pending`] says that somebody has not passed it.
    async fn take_out(
        &mut self,
        table: RangeTable,
        name: RangeName,
        fate: Fate,
        lock_wait: Duration,
    ) -> Result<Dropped, StoreError>;

    /// What was taken out and is not finished, perhaps by a maintainer that was cut off.
    async fn leaving(&mut self) -> Result<Vec<Leaving>, StoreError>;

    /// Forgets ids of facts that were taken out, those after a position, in one short transaction.
    /// Says how far it came; `None` when there are no more.
    async fn forget_ids(
        &mut self,
        leaving: Leaving,
        after: Position,
        limit: usize,
    ) -> Result<Option<Position>, StoreError>;

    /// Drops what was taken out, or gives it its last name, and answers with that.
    async fn finish(&mut self, leaving: Leaving) -> Result<Option<String>, StoreError>;

    /// Gives lock and session back.
    async fn release(self: Box<Self>) -> Result<(), StoreError>;
}
