//! Reading page by page.

use std::time::Duration;

use futures_util::stream::{self, Stream, TryStreamExt};
use sendoff_core::journal::{Position, Query, Recorded};
use sendoff_core::limits;

use super::store::{Found, JournalStore, Page};
use crate::appetite::{Appetite, Portion};
use crate::store::StoreError;

/// Everything the query means between two positions, a page at a time.
pub(super) fn pages<S: JournalStore>(
    store: &S,
    query: Query,
    after: Position,
    up_to: Position,
) -> impl Stream<Item = Result<Recorded, StoreError>> + Send {
    let most = Portion { rows: limits::BATCH_ROWS, bytes: limits::READ_BYTES };
    let next = move |(query, after, mut appetite): (Query, Option<Position>, Appetite)| async move {
        let Some(after) = after.filter(|after| *after < up_to) else {
            return Ok::<_, StoreError>(None);
        };
        let Portion { rows, bytes } = appetite.portion();
        let Found { facts, more } =
            store.read(&query, Page { after, up_to, limit: rows, bytes }).await?;
        let bytes = facts.iter().map(|fact| fact.event().size()).sum();
        // Nobody waits for it with a clock.
        appetite.answered(Portion { rows: facts.len(), bytes }, Duration::ZERO, Duration::MAX);
        let after = facts.last().filter(|_| more).map(|last| last.position);
        Ok(Some((stream::iter(facts.into_iter().map(Ok)), (query, after, appetite))))
    };
    stream::try_unfold((query, Some(after), Appetite::up_to(most)), next).try_flatten()
}
