//! Delivered events on PostgreSQL, walked in steps.

use async_trait::async_trait;
use sendoff_core::{ReplayPosition, Timestamp};
use sendoff_engine::store::frame::{letter, replay};
use sendoff_engine::store::{ReplayPage, ReplayStore, ReplayTally, Replayable, StoreError};
use tokio_postgres::types::ToSql;

use crate::link::Params;
use crate::rows;
use crate::store::PostgresStore;
use crate::wire::At;

/// Rows that one call looks at, and sorts; and all that were delivered at the same moment as the last of them.
const ROWS_PER_STEP: i64 = 2_000;

const BEYOND_ALL: ReplayPosition =
    ReplayPosition { done_at: Timestamp::from_micros(i64::MAX), seq: i64::MAX };

#[async_trait]
impl ReplayStore for PostgresStore {
    async fn replayable(&self, page: &ReplayPage<'_>) -> Result<Replayable, StoreError> {
        let end = self.step(page).await?;
        let (rows, bytes) = (whole(page.rows), whole(page.bytes));
        let bounds = Bounds::of(page, end);
        let [most_rows, most_bytes]: [&(dyn ToSql + Sync); 2] = [&rows, &bytes];
        let params = [&bounds.params(page)[..], &[most_rows, most_bytes]].concat();
        let found = self.ask(&self.sql().replay, &params).await?;
        replay::page(found.iter().map(rows::all), page, end)
    }

    async fn count_replayable(&self, page: &ReplayPage<'_>) -> Result<ReplayTally, StoreError> {
        let end = self.step(page).await?;
        let bounds = Bounds::of(page, end);
        let found = self.ask(&self.sql().replay_count, &bounds.params(page)).await?;
        let events = letter::counted(found.first().map(rows::all))?;
        Ok(ReplayTally { events, next: end })
    }
}

/// Between which times and places is looked.
struct Bounds {
    first: At,
    last: At,
    after: (At, i64),
    end: (At, i64),
}

impl Bounds {
    fn of(page: &ReplayPage<'_>, end: Option<ReplayPosition>) -> Self {
        let ((first, last), after) = (page.walked_between(), page.begins_after());
        let place = |at: ReplayPosition| (At(at.done_at).in_calendar(), at.seq);
        let (first, last) = (At(first).in_calendar(), At(last).in_calendar());
        Self { first, last, after: place(after), end: place(end.unwrap_or(BEYOND_ALL)) }
    }

    fn params<'p>(&'p self, page: &'p ReplayPage<'_>) -> [&'p (dyn ToSql + Sync); 11] {
        let filter = page.filter;
        [
            &self.first,
            &self.last,
            &self.after.0,
            &self.after.1,
            &self.end.0,
            &self.end.1,
            &filter.event_type,
            &filter.aggregate_type,
            &filter.aggregate_id,
            &filter.tenant_id,
            &filter.ordering_key,
        ]
    }
}

impl PostgresStore {
    /// Where this call's walk ends; `None` where there is nothing after it.
    async fn step(&self, page: &ReplayPage<'_>) -> Result<Option<ReplayPosition>, StoreError> {
        let bounds = Bounds::of(page, None);
        let offset = ROWS_PER_STEP - 1;
        let Bounds { first, last, after, .. } = &bounds;
        let params: Params<'_> = &[first, last, &after.0, &after.1, &offset];
        let found = self.ask(&self.sql().replay_step, params).await?;
        let place = found.first().map(|row| replay::place(&mut rows::all(row)));
        Ok(place.transpose()?)
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
