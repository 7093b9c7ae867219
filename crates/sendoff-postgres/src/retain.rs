use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Status, limits};
use sendoff_engine::store::{Purge, Purged, RetainStore, StoreError};

use crate::link::Params;
use crate::options::Retention;
use crate::rows;
use crate::store::PostgresStore;
use crate::wire::Span;

#[async_trait]
impl RetainStore for PostgresStore {
    fn keeps(&self) -> Option<Duration> {
        match self.retention() {
            Retention::DeleteWhenDone => None,
            Retention::Keep(duration) => Some(duration),
        }
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_open()?;
        let limit = purge.limit.min(limits::BATCH_ROWS) as i64;
        let params: Params<'_> = &[&Span(purge.older_than), &limit, &purge.dead];
        let mut purged = Purged::default();
        for row in self.links().upkeep.query(&self.sql().purge, params).await? {
            if rows::get::<i16>(&row, 0)? == Status::Dead.code() {
                purged.dead += 1;
            } else {
                purged.done += 1;
            }
        }
        Ok(purged)
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_open()?;
        let limit = i64::try_from(purge.limit).unwrap_or(i64::MAX);
        let params: Params<'_> = &[&Span(purge.older_than), &limit, &purge.dead];
        let found = self.links().upkeep.query(&self.sql().purgeable, params).await?;
        let Some(row) = found.first() else { return Ok(Purged::default()) };
        let count =
            |column| rows::get::<i64>(row, column).map(|count| u64::try_from(count).unwrap_or(0));
        Ok(Purged { done: count(0)?, dead: count(1)? })
    }
}
