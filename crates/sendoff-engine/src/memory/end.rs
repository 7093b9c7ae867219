//! Whether events in memory are over.

use async_trait::async_trait;
use sendoff_core::{EventId, Status, Timestamp};

use super::entry::Entry;
use super::store::MemoryStore;
use crate::store::{EndStore, Horizon, Standing, StoreError};

#[async_trait]
impl EndStore for MemoryStore {
    async fn standing(&self, ids: &[EventId]) -> Result<Vec<Standing>, StoreError> {
        Ok(self
            .with(|table, _| ids.iter().filter_map(|id| table.get(*id)).map(standing).collect())?)
    }

    async fn horizon(&self) -> Result<Option<Horizon>, StoreError> {
        Ok(self.with(|table, now| {
            let last = table.entries().filter(|entry| entry.row.status.is_pending());
            last.map(Entry::number).max().map(|seq| Horizon { seq, at: now })
        })?)
    }

    async fn pending_within(
        &self,
        horizon: Horizon,
        limit: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        let within = |entry: &&Entry| {
            let delayed = |until: Timestamp| until > horizon.at;
            entry.row.status.is_pending()
                && entry.number() <= horizon.seq
                && !entry.row.delayed_until.is_some_and(delayed)
        };
        Ok(self.with(|table, _| {
            let rows = table.entries().filter(within);
            rows.map(|entry| entry.row.event.id()).take(limit).collect()
        })?)
    }
}

fn standing(entry: &Entry) -> Standing {
    let row = &entry.row;
    let error = row.last_error.clone().filter(|_| row.status == Status::Dead);
    Standing { id: row.event.id(), status: row.status, error }
}
