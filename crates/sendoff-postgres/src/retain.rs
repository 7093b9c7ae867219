use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::limits;
use sendoff_engine::store::{RetainStore, StoreError};

use crate::options::Retention;
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

    async fn purge(&self, older_than: Duration, limit: usize) -> Result<u64, StoreError> {
        self.check_open()?;
        let limit = limit.min(limits::BATCH_ROWS) as i64;
        let params: crate::link::Params<'_> = &[&Span(older_than), &limit];
        let purged = self.links().upkeep.query(&self.sql().purge, params).await?;
        Ok(purged.len() as u64)
    }
}
