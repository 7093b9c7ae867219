//! Reading page by page.

use std::time::Duration;

use futures_util::stream::{self, Stream, TryStreamExt};
use sendoff_core::journal::{Position, Query, Recorded};
use sendoff_core::limits;

use super::store::{Basis, Found, JournalStore, Page};
use crate::appetite::{Appetite, Portion};
use crate::store::{StoreError, within};

/// Everything the query means between two positions, a page at a time; from the last fact on that
/// `closing` means, if there is one.
pub(super) fn pages<S: JournalStore>(
    store: &S,
    query: Query,
    closing: Option<Query>,
    after: Position,
    up_to: Position,
) -> impl Stream<Item = Result<Recorded, StoreError>> + Send {
    let wait = store.longest_wait();
    let next = move |state: (Query, Option<Query>, Option<Position>, Pages)| async move {
        let (query, closing, after, mut pages) = state;
        let Some(after) = after.filter(|after| *after < up_to) else {
            return Ok::<_, StoreError>(None);
        };
        let basis = Basis { query: &query, closing: closing.as_ref(), page: pages.page(after) };
        let found = within(wait, store.read_from_last(basis)).await?;
        let after = pages.turned(&found);
        Ok(Some((stream::iter(found.facts.into_iter().map(Ok)), (query, None, after, pages))))
    };
    stream::try_unfold((query, closing, Some(after), Pages::up_to(up_to)), next).try_flatten()
}

/// How large the pages are up to a position, bounded in rows and in bytes.
pub(super) struct Pages {
    appetite: Appetite,
    up_to: Position,
}

impl Pages {
    pub(super) fn up_to(up_to: Position) -> Self {
        let most = Portion { rows: limits::BATCH_ROWS, bytes: limits::READ_BYTES };
        Self { appetite: Appetite::up_to(most), up_to }
    }

    /// The page above a position.
    pub(super) fn page(&self, after: Position) -> Page {
        let Portion { rows, bytes } = self.appetite.portion();
        Page { after, up_to: self.up_to, limit: rows, bytes }
    }

    /// Where the next page begins, if what was found was not all.
    pub(super) fn turned(&mut self, found: &Found) -> Option<Position> {
        let Found { facts, more, .. } = found;
        let bytes = facts.iter().map(|fact| fact.event().size()).sum();
        // Nobody waits for it with a clock.
        self.appetite.answered(Portion { rows: facts.len(), bytes }, Duration::ZERO, Duration::MAX);
        facts.last().filter(|_| *more).map(|last| last.position)
    }
}
