//! Whether events on PostgreSQL are over.

use async_trait::async_trait;
use sendoff_core::EventId;
use sendoff_engine::store::frame::end;
use sendoff_engine::store::{EndStore, Horizon, Standing, StoreError};

use crate::rows;
use crate::store::PostgresStore;
use crate::wire::{At, Id};

#[async_trait]
impl EndStore for PostgresStore {
    async fn standing(&self, ids: &[EventId]) -> Result<Vec<Standing>, StoreError> {
        let ids: Vec<Id> = ids.iter().copied().map(Id).collect();
        let found = self.ask(&self.sql().standing, &[&ids]).await?;
        end::standings(found.iter().map(rows::all))
    }

    async fn horizon(&self) -> Result<Option<Horizon>, StoreError> {
        let found = self.ask(&self.sql().horizon, &[]).await?;
        end::horizon(found.first().map(rows::all))
    }

    async fn pending_within(
        &self,
        horizon: Horizon,
        limit: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let at = At(horizon.at).in_calendar();
        let found = self.ask(&self.sql().pending_within, &[&horizon.seq, &at, &limit]).await?;
        end::ids(found.iter().map(rows::all))
    }
}
