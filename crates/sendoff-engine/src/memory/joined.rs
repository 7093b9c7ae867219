//! What a transaction of the store in memory does beside inserting: as in a database it has locked what it is
//! about, and nobody sees it before its commit.

use sendoff_core::{EventId, Timestamp, Token};

use super::store::MemoryStore;
use super::table::Table;
use crate::capture::{CursorMove, JoinError, Part};
use crate::journal::MemoryJournal;
use crate::journal::publish::LockedCursor;
use crate::store::{Held, Outcome};

/// The parts so far. Dropped, they are undone.
pub(super) struct Joined {
    store: MemoryStore,
    done: Vec<Deed>,
}

#[derive(Debug)]
enum Deed {
    /// An event that a consumer sees for the first time.
    Seen(String, EventId),
    /// A row that is locked, and delivered.
    Done(EventId),
    /// A cursor that is locked, and moved.
    Moved(LockedCursor),
}

impl Joined {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self { store, done: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.done.len()
    }

    pub(super) fn add(&mut self, part: &Part<'_>) -> Result<bool, JoinError> {
        let done = &mut self.done;
        let added = self.store.with(|table, _| match *part {
            Part::Once { consumer, id } => once(table, done, consumer.as_str(), id),
            Part::Done { id, token, .. } => hold_on(table, done, id, token),
            Part::Moved(_) => Err(JoinError::NotHere),
        });
        added.map_err(|_| JoinError::Closed)?
    }

    /// Locks a cursor, and moves it with the commit.
    pub(super) fn lock(
        &mut self,
        journal: &MemoryJournal,
        to: CursorMove<'_>,
    ) -> Result<bool, JoinError> {
        let Some(locked) = journal.lock_cursor(to)? else { return Ok(false) };
        self.done.push(Deed::Moved(locked));
        Ok(true)
    }

    /// Makes them visible, with whatever else commits.
    pub(super) fn commit(&mut self, table: &mut Table, keep: bool, now: Timestamp) {
        for deed in self.done.drain(..) {
            match deed {
                Deed::Seen(consumer, id) => {
                    table.seeing.remove(&(consumer.clone(), id));
                    table.seen.insert((consumer, id), now);
                }
                Deed::Done(id) => {
                    table.settle_locked(&[(id, Outcome::Done)], keep, now);
                    table.unlock(&[id], now);
                }
                Deed::Moved(locked) => locked.commit(),
            }
        }
    }

    /// Undoes what came after the first `mark` of them.
    pub(super) fn undo_to(&mut self, mark: usize) {
        for deed in self.done.drain(mark.min(self.done.len())..) {
            match deed {
                Deed::Seen(consumer, id) => self.store.see_not(&(consumer, id)),
                Deed::Done(id) => self.store.unlock(&[id]),
                // Dropped, it is unlocked.
                Deed::Moved(_) => {}
            }
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.undo_to(0);
    }
}

/// Where another transaction has the same, it is told so at once: nothing waits in here.
fn once(
    table: &mut Table,
    done: &mut Vec<Deed>,
    consumer: &str,
    id: EventId,
) -> Result<bool, JoinError> {
    let key = (consumer.to_owned(), id);
    let ours = |deed: &Deed| matches!(deed, Deed::Seen(who, what) if *who == key.0 && *what == id);
    if table.seen.contains_key(&key) || done.iter().any(ours) {
        return Ok(false);
    }
    if !table.seeing.insert(key.clone()) {
        return Err(JoinError::Busy(format!("{consumer} is seeing event {id}").into()));
    }
    done.push(Deed::Seen(key.0, id));
    Ok(true)
}

fn hold_on(
    table: &mut Table,
    done: &mut Vec<Deed>,
    id: EventId,
    token: Token,
) -> Result<bool, JoinError> {
    if !table.is_held(&Held::row(id, token)) {
        return Ok(false);
    }
    if !table.lock_row(id) {
        return Err(JoinError::Busy(format!("event {id} is locked").into()));
    }
    done.push(Deed::Done(id));
    Ok(true)
}
