//! Delivered events on MySQL and MariaDB, walked in steps.

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::{ReplayPosition, Timestamp};
use sendoff_engine::store::frame::{letter, replay};
use sendoff_engine::store::{ReplayPage, ReplayStore, ReplayTally, Replayable, StoreError};

use crate::rows::Taken;
use crate::sql::Statement;
use crate::store::MysqlStore;
use crate::wire::Literal;

/// Rows that one call looks at: few enough for a statement that takes no time worth mentioning.
const ROWS_PER_STEP: usize = 2_000;

const BEYOND_ALL: ReplayPosition =
    ReplayPosition { done_at: Timestamp::from_micros(i64::MAX), seq: i64::MAX };

#[async_trait]
impl ReplayStore for MysqlStore {
    async fn replayable(&self, page: &ReplayPage<'_>) -> Result<Replayable, StoreError> {
        let end = self.step(page).await?;
        let mut found = self.walk(&self.sql().replay, page, end, page.rows).await?;
        replay::page(found.iter_mut().map(Taken), page, end)
    }

    async fn count_replayable(&self, page: &ReplayPage<'_>) -> Result<ReplayTally, StoreError> {
        let end = self.step(page).await?;
        let mut found = self.walk(&self.sql().replay_count, page, end, page.rows).await?;
        let events = letter::counted(found.first_mut().map(Taken))?;
        Ok(ReplayTally { events, next: end })
    }
}

impl MysqlStore {
    /// Where this call's walk ends; `None` where there is nothing after it.
    async fn step(&self, page: &ReplayPage<'_>) -> Result<Option<ReplayPosition>, StoreError> {
        let mut found = self.walk(&self.sql().replay_step, page, None, ROWS_PER_STEP - 1).await?;
        let place = found.first_mut().map(|row| replay::place(&mut Taken(row)));
        Ok(place.transpose()?)
    }

    async fn walk(
        &self,
        statement: &Statement,
        page: &ReplayPage<'_>,
        end: Option<ReplayPosition>,
        rows: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.check_open()?;
        let ((first, last), after) = (page.walked_between(), page.begins_after());
        let (end, filter) = (end.unwrap_or(BEYOND_ALL), page.filter);
        let text = |text: &Option<String>| Literal::maybe_text(text.as_deref());
        let text = statement.with(&[
            ("first", &Literal::nearest_time(first)),
            ("last", &Literal::nearest_time(last)),
            ("after_at", &Literal::nearest_time(after.done_at)),
            ("after_seq", &Literal::number(after.seq)),
            ("end_at", &Literal::nearest_time(end.done_at)),
            ("end_seq", &Literal::number(end.seq)),
            ("event_type", &text(&filter.event_type)),
            ("aggregate_type", &text(&filter.aggregate_type)),
            ("aggregate_id", &text(&filter.aggregate_id)),
            ("tenant_id", &text(&filter.tenant_id)),
            ("ordering_key", &text(&filter.ordering_key)),
            ("rows", &Literal::count(rows)),
            ("bytes", &Literal::count(page.bytes)),
        ]);
        self.links().upkeep.query(&text).await
    }
}
