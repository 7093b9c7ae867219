//! The `locked` claim mode: rows that a transaction keeps to itself, and writes only at its end.

use async_trait::async_trait;
use sendoff_core::{EventId, Timestamp};

use super::store::MemoryStore;
use crate::store::{Claimed, Lock, LockStore, LockedRows, Outcome, StoreError};

#[async_trait]
impl LockStore for MemoryStore {
    async fn lock(&self, lock: &Lock) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        let rows = self.with(|table, now| table.lock(lock, now))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let ids = rows.iter().map(|row| row.id).collect();
        Ok(Some(Box::new(MemoryLocked { store: self.clone(), ids, rows, settled: Vec::new() })))
    }
}

struct MemoryLocked {
    store: MemoryStore,
    ids: Vec<EventId>,
    rows: Vec<Claimed>,
    /// Each settlement with the time it was made at, until the commit.
    settled: Vec<(Timestamp, Vec<(EventId, Outcome)>)>,
}

#[async_trait]
impl LockedRows for MemoryLocked {
    fn take(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.rows)
    }

    async fn settle(&mut self, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError> {
        let now = self.store.with(|_, now| now)?;
        let of_batch = |(id, _): &&(EventId, Outcome)| self.ids.contains(id);
        self.settled.push((now, outcomes.iter().filter(of_batch).cloned().collect()));
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let keep = self.store.keep().is_some();
        self.store.with(|table, _| {
            for (at, outcomes) in &self.settled {
                table.settle_locked(outcomes, keep, *at);
            }
        })?;
        Ok(())
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Drop for MemoryLocked {
    fn drop(&mut self) {
        self.store.unlock(&self.ids);
    }
}
