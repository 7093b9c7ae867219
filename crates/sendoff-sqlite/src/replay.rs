//! Delivered events in an SQLite file, walked in steps that leave others their turn.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, ToSql};
use sendoff_core::{ReplayFilter, ReplayPosition, Timestamp};
use sendoff_engine::store::frame::replay;
use sendoff_engine::store::{
    DoneRow, ReplayPage, ReplayStore, ReplayTally, Replayable, StoreError,
};

use crate::rows::{all, weight_from};
use crate::store::SqliteStore;

/// Rows looked at in one call to the store's thread, so that claims and settlements get their turn.
const ROWS_PER_STEP: i64 = 2_000;

#[async_trait]
impl ReplayStore for SqliteStore {
    async fn replayable(&self, page: &ReplayPage<'_>) -> Result<Replayable, StoreError> {
        let end = self.walked_to(page).await?;
        let (part, rows, bytes) = (Part::of(page, end), page.rows, page.bytes);
        let (found, met) = self
            .read(move |conn, sql, _| {
                let mut statement = conn.prepare_cached(&sql.replay)?;
                let limit = i64::try_from(rows).unwrap_or(i64::MAX);
                let mut found = part.with_values(&[&limit], |values| statement.query(values))?;
                let (mut rows, mut sum, mut met) = (Vec::new(), 0_usize, 0_usize);
                while let Some(row) = found.next()? {
                    met += 1;
                    sum = sum.saturating_add(weight_from(row, 0)?);
                    if sum > bytes && !rows.is_empty() {
                        break;
                    }
                    rows.push(replay::done(&mut all(row)));
                }
                Ok((rows, met))
            })
            .await?;
        let rows = found.into_iter().collect::<Result<Vec<DoneRow>, _>>()?;
        Ok(Replayable::read(rows, met, page, end))
    }

    async fn count_replayable(&self, page: &ReplayPage<'_>) -> Result<ReplayTally, StoreError> {
        let end = self.walked_to(page).await?;
        let part = Part::of(page, end);
        let count: i64 = self
            .read(move |conn, sql, _| {
                let mut statement = conn.prepare_cached(&sql.replay_count)?;
                part.with_values(&[], |values| statement.query_row(values, |row| row.get(0)))
            })
            .await?;
        Ok(ReplayTally { events: u64::try_from(count).unwrap_or(0), next: end })
    }
}

impl SqliteStore {
    /// Where this call's walk ends; `None` where there is nothing after it.
    async fn walked_to(&self, page: &ReplayPage<'_>) -> Result<Option<ReplayPosition>, StoreError> {
        let after = page.begins_after().seq;
        let end: Option<i64> = self
            .read(move |conn, sql, _| {
                let mut statement = conn.prepare_cached(&sql.replay_step)?;
                statement.query_row((after, ROWS_PER_STEP - 1), |row| row.get(0)).optional()
            })
            .await?;
        // Nobody asks when the row at the end of a step was delivered, if it was.
        Ok(end.map(|seq| ReplayPosition { done_at: Timestamp::from_micros(0), seq }))
    }
}

/// A part of a walk: after a number, and up to another.
struct Part {
    filter: ReplayFilter,
    after: i64,
    end: i64,
    between: (Timestamp, Timestamp),
}

impl Part {
    fn of(page: &ReplayPage<'_>, end: Option<ReplayPosition>) -> Self {
        let (filter, between) = (page.filter.clone(), page.done_between());
        let end = end.map_or(i64::MAX, |end| end.seq);
        Self { filter, after: page.begins_after().seq, end, between }
    }

    fn with_values<T>(&self, more: &[&dyn ToSql], run: impl FnOnce(&[&dyn ToSql]) -> T) -> T {
        let Self { filter, after, end, between: (first, last) } = self;
        let (first, last) = (first.as_micros(), last.as_micros());
        let values: [&dyn ToSql; 9] = [
            after,
            end,
            &first,
            &last,
            &filter.event_type,
            &filter.aggregate_type,
            &filter.aggregate_id,
            &filter.tenant_id,
            &filter.ordering_key,
        ];
        run(&[&values[..], more].concat())
    }
}
