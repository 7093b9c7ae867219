//! Transactions of the store in memory.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sendoff_core::EventId;

use super::entry::Entry;
use super::joined::Joined;
use super::savepoint::MemorySavepoint;
use super::store::{Closed, MemoryStore};
use super::table::Duplicate;
use crate::capture::{CommitError, CursorMove, InsertResult, JoinError, Part, WriteError};
use crate::journal::MemoryJournal;
use crate::lock::lock;
use crate::store::NewRow;

/// A transaction of a [`MemoryStore`]. Dropping it rolls it back.
///
/// Rows get their times when they are written and their place in the order when they commit, as in
/// a database.
pub struct MemoryTx {
    store: MemoryStore,
    staged: Mutex<Staged>,
    joined: Mutex<Joined>,
}

/// How much a transaction did so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    entries: usize,
    joined: usize,
}

#[derive(Default)]
struct Staged {
    entries: Vec<Entry>,
    ids: BTreeSet<EventId>,
}

impl From<Closed> for WriteError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

impl MemoryTx {
    pub(super) fn new(store: MemoryStore) -> Self {
        let joined = Mutex::new(Joined::new(store.clone()));
        Self { store, staged: Mutex::default(), joined }
    }

    /// Makes everything that was written visible, at once.
    pub fn commit(self) -> Result<(), CommitError> {
        let Self { store, staged, joined } = self;
        let Staged { entries, .. } = staged.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut joined = joined.into_inner().unwrap_or_else(PoisonError::into_inner);
        let keep = store.keep().is_some();
        // Another transaction may have committed one of our ids since we wrote it.
        let committed = store.with(|table, now| {
            table.insert(entries)?;
            joined.commit(table, keep, now);
            Ok::<(), Duplicate>(())
        });
        match committed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(CommitError::Refused(WriteError::DuplicateId)),
            Err(closed) => Err(CommitError::Refused(closed.into())),
        }
    }

    /// Forgets everything that was written, like dropping it.
    pub fn rollback(self) {}

    /// Sets a savepoint: what is written through it can be undone on its own.
    pub fn savepoint(&mut self) -> MemorySavepoint<'_> {
        MemorySavepoint::new(self)
    }

    /// Writes all rows or none.
    pub(super) fn stage(&self, rows: &[NewRow]) -> InsertResult {
        self.store.with(|table, now| {
            let mut staged = self.lock();
            let mut ids = BTreeSet::new();
            for id in rows.iter().map(|row| row.event.id()) {
                if table.contains(id) || staged.ids.contains(&id) || !ids.insert(id) {
                    return Err(WriteError::DuplicateId);
                }
            }
            let entries = rows
                .iter()
                .map(|row| Entry::born(row, table.next_seq(), now))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|undecodable| WriteError::Driver(undecodable.into()))?;
            let born = entries.iter().map(Entry::as_born).collect();
            staged.entries.extend(entries);
            staged.ids.append(&mut ids);
            Ok(born)
        })?
    }

    /// Takes part in it.
    pub(super) fn join(&self, part: &Part<'_>) -> Result<bool, JoinError> {
        lock(&self.joined).add(part)
    }

    /// Locks a cursor of a journal in memory, and moves it with the commit.
    pub(crate) fn move_cursor(
        &self,
        journal: &MemoryJournal,
        to: CursorMove<'_>,
    ) -> Result<bool, JoinError> {
        lock(&self.joined).lock(journal, to)
    }

    /// How much was done so far.
    pub(super) fn mark(&self) -> Mark {
        Mark { entries: self.lock().entries.len(), joined: lock(&self.joined).len() }
    }

    /// Forgets what was done after `mark`.
    pub(super) fn undo_to(&self, mark: Mark) {
        lock(&self.joined).undo_to(mark.joined);
        let mut staged = self.lock();
        let Staged { entries, ids } = &mut *staged;
        for entry in entries.drain(mark.entries.min(entries.len())..) {
            ids.remove(&entry.row.event.id());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Staged> {
        // Rows are added as the last, infallible step, so a panic leaves nothing half-staged.
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTx").field("staged", &self.mark().entries).finish_non_exhaustive()
    }
}
