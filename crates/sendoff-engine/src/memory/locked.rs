//! The `locked` claim mode: rows that a transaction keeps to itself, and writes only at its end.

use async_trait::async_trait;
use sendoff_core::EventId;

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
        Ok(Some(Box::new(MemoryLocked { store: self.clone(), ids, rows })))
    }
}

struct MemoryLocked {
    store: MemoryStore,
    ids: Vec<EventId>,
    rows: Vec<Claimed>,
}

#[async_trait]
impl LockedRows for MemoryLocked {
    fn take(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.rows)
    }

    async fn commit(self: Box<Self>, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError> {
        let keep = self.store.keep().is_some();
        let of_batch = |(id, _): &&(EventId, Outcome)| self.ids.contains(id);
        let outcomes: Vec<_> = outcomes.iter().filter(of_batch).cloned().collect();
        Ok(self.store.with(|table, now| table.settle_locked(&outcomes, keep, now))?)
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
