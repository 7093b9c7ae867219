//! What the engine asks of a store about events that were delivered, for replays.

use async_trait::async_trait;
use sendoff_core::{Event, EventId, ReplayFilter, ReplayPosition, Timestamp, Undecodable};

use super::{LetterStore, RetainStore, StoreError};

/// Delivered events, read once more. Looks, and changes nothing; waits for no lock.
///
/// They come in the order in which they were delivered, along the index of delivered rows; from a store that has
/// none, in the order of their numbers. What one call looks at is bounded, however few rows meet a filter, and so
/// are the rows and bytes that it answers.
#[async_trait]
pub trait ReplayStore: RetainStore + LetterStore {
    /// A page of them.
    async fn replayable(&self, page: &ReplayPage<'_>) -> Result<Replayable, StoreError>;

    /// How many there are on a page; its rows and bytes do not count.
    async fn count_replayable(&self, page: &ReplayPage<'_>) -> Result<ReplayTally, StoreError>;
}

/// A part of the delivered events.
#[derive(Debug, Clone, Copy)]
pub struct ReplayPage<'a> {
    /// Which are meant.
    pub filter: &'a ReplayFilter,
    /// Only those that come after this one, in the store's order.
    pub after: Option<ReplayPosition>,
    /// Only those that were delivered at this time or earlier.
    pub until: Timestamp,
    /// At most so many.
    pub rows: usize,
    /// Not more bytes of payloads and headers than this, but always one row where there is one.
    pub bytes: usize,
}

impl ReplayPage<'_> {
    /// The first and the last time at which an event of this page can have been delivered.
    pub fn done_between(&self) -> (Timestamp, Timestamp) {
        let before = |to: Timestamp| Timestamp::from_micros(to.as_micros().saturating_sub(1));
        let last = self.filter.done_to.map_or(self.until, |to| before(to).min(self.until));
        (self.filter.done_from.unwrap_or(EARLIEST), last)
    }

    /// The same of a store that walks in the order in which events were delivered: what an index is walked between.
    pub fn walked_between(&self) -> (Timestamp, Timestamp) {
        let (first, last) = self.done_between();
        (self.after.map_or(first, |after| after.done_at.max(first)), last)
    }

    /// The place after which it begins; before all others where it begins with the first.
    pub fn begins_after(&self) -> ReplayPosition {
        self.after.unwrap_or(ReplayPosition { done_at: EARLIEST, seq: i64::MIN })
    }
}

const EARLIEST: Timestamp = Timestamp::from_micros(i64::MIN);

/// A page of delivered events.
#[derive(Debug, Default)]
pub struct Replayable {
    /// Them, in the store's order; perhaps none, although there are more.
    pub rows: Vec<DoneRow>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<ReplayPosition>,
}

impl Replayable {
    /// What a walk read that ended at a place, or at the end of all: `met` rows met the filter, of which those that
    /// fit are here.
    pub fn read(
        rows: Vec<DoneRow>,
        met: usize,
        page: &ReplayPage<'_>,
        walked_to: Option<ReplayPosition>,
    ) -> Self {
        let cut = rows.len() < met || rows.len() >= page.rows;
        let last = rows.last().map(|row| row.position).filter(|_| cut);
        Self { rows, next: last.or(walked_to) }
    }
}

/// An event that was delivered.
#[derive(Debug)]
pub struct DoneRow {
    /// Its id.
    pub id: EventId,
    /// When it was delivered, and its number.
    pub position: ReplayPosition,
    /// When it was written.
    pub created_at: Timestamp,
    /// The event, unless somebody has changed its row since.
    pub event: Result<Event, Undecodable>,
}

/// How many delivered events there are on a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayTally {
    /// So many.
    pub events: u64,
    /// Where the next page begins; `None` at the end.
    pub next: Option<ReplayPosition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lies_between_the_narrowest_of_its_bounds() {
        let at = Timestamp::from_micros;
        let (everything, until) = (ReplayFilter::default(), at(40));
        let page = ReplayPage { filter: &everything, after: None, until, rows: 1, bytes: 1 };
        assert_eq!(page.done_between(), (EARLIEST, at(40)));
        let filter =
            ReplayFilter { done_from: Some(at(10)), done_to: Some(at(40)), ..everything.clone() };
        let page = ReplayPage { filter: &filter, ..page };
        assert_eq!(page.done_between(), (at(10), at(39)));
        assert_eq!(ReplayPage { until: at(20), ..page }.done_between(), (at(10), at(20)));
        let after = Some(ReplayPosition { done_at: at(25), seq: 1 });
        let page = ReplayPage { after, ..page };
        assert_eq!(
            (page.done_between(), page.walked_between()),
            ((at(10), at(39)), (at(25), at(39)))
        );
    }
}
