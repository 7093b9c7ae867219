//! Reading page by page.

use futures_util::stream::{self, Stream, TryStreamExt};
use sendoff_core::journal::{Position, Query, Recorded};
use sendoff_core::limits;

use super::store::{JournalStore, Page};
use crate::store::StoreError;

/// Everything the query means between two positions, a page at a time.
pub(super) fn pages<S: JournalStore>(
    store: &S,
    query: Query,
    after: Position,
    up_to: Position,
) -> impl Stream<Item = Result<Recorded, StoreError>> + Send {
    let limit = limits::BATCH_ROWS;
    let next = move |(query, after): (Query, Option<Position>)| async move {
        let Some(after) = after.filter(|after| *after < up_to) else {
            return Ok::<_, StoreError>(None);
        };
        let page = store.read(&query, Page { after, up_to, limit }).await?;
        // A page that is not full is the last.
        let more = page.last().filter(|_| page.len() == limit).map(|last| last.position);
        Ok(Some((stream::iter(page.into_iter().map(Ok)), (query, more))))
    };
    stream::try_unfold((query, Some(after)), next).try_flatten()
}
