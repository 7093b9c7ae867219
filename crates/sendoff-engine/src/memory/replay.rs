//! Delivered events in memory, read once more.

use async_trait::async_trait;
use sendoff_core::{ReplayPosition, Status};

use super::entry::Entry;
use super::store::MemoryStore;
use super::table::Table;
use crate::store::{DoneRow, ReplayPage, ReplayStore, ReplayTally, Replayable, StoreError};
use crate::weight::weight;

#[async_trait]
impl ReplayStore for MemoryStore {
    async fn replayable(&self, page: &ReplayPage<'_>) -> Result<Replayable, StoreError> {
        Ok(self.with(|table, _| {
            let (mut rows, mut bytes) = (Vec::new(), 0_usize);
            for (position, entry) in table.done(page) {
                bytes = bytes.saturating_add(weight(&entry.row.event));
                if rows.len() >= page.rows || bytes > page.bytes && !rows.is_empty() {
                    let next = rows.last().map(|row: &DoneRow| row.position);
                    return Replayable { rows, next };
                }
                let row = &entry.row;
                let (id, created_at) = (row.event.id(), row.created_at);
                rows.push(DoneRow { id, position, created_at, event: entry.event() });
            }
            Replayable { rows, next: None }
        })?)
    }

    async fn count_replayable(&self, page: &ReplayPage<'_>) -> Result<ReplayTally, StoreError> {
        let events = self.with(|table, _| table.done(page).len() as u64)?;
        Ok(ReplayTally { events, next: None })
    }
}

impl Table {
    /// What was delivered and is meant, in the order in which it was delivered.
    fn done(&self, page: &ReplayPage<'_>) -> Vec<(ReplayPosition, &Entry)> {
        let ((first, last), after) = (page.done_between(), page.begins_after());
        let done = |entry| {
            let entry: &Entry = entry;
            let done_at = entry.row.done_at.filter(|_| entry.row.status == Status::Done)?;
            let meant =
                (first..=last).contains(&done_at) && page.filter.means(&entry.row.event, done_at);
            let position = ReplayPosition { done_at, seq: entry.number() };
            (meant && position > after).then_some((position, entry))
        };
        let mut rows: Vec<_> = self.entries().filter_map(done).collect();
        rows.sort_unstable_by_key(|(position, _)| *position);
        rows
    }
}
