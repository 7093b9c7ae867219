//! The `locked` claim mode: rows that a transaction keeps to itself, and writes only at its end; and
//! rows that somebody else keeps locked.

use async_trait::async_trait;
use sendoff_core::EventId;

use super::store::MemoryStore;
use crate::store::{Claimed, Lock, LockStore, LockedRows, Outcome, StoreError};

#[async_trait]
impl LockStore for MemoryStore {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        let rows = self.with(|table, now| table.lock(lock, now))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let ids = rows.iter().map(|row| row.id).collect();
        Ok(Some(Box::new(MemoryLocked { store: self.clone(), ids, rows })))
    }
}

/// A row that a foreign session has locked, as an operator's open `update` does. Dropped, it is free.
#[derive(Debug)]
#[must_use = "the row is free when this is dropped"]
pub struct RowLock {
    store: MemoryStore,
    id: EventId,
}

impl MemoryStore {
    /// Locks one row as somebody else's transaction would: it stays as it is, claims pass it by, and
    /// settlements and extensions find it busy. `None` if there is no such row, or it is locked.
    pub fn lock_row(&self, id: EventId) -> Option<RowLock> {
        let locked = self.with(|table, _| table.lock_row(id)).ok()?;
        locked.then(|| RowLock { store: self.clone(), id })
    }
}

impl Drop for RowLock {
    fn drop(&mut self) {
        self.store.unlock(&[self.id]);
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
