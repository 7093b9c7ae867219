//! Writing a history, from any thread.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sendoff_core::{Delivery, Event, EventId, Status};
use sendoff_engine::store::{Held, Row, Settlement};

use super::digest::Digest;
use super::entry::{Decision, Ending, Entry, Position, WriteOutcome};
use super::fault::Fault;

/// What happened so far. It only grows; clones are one history, and any thread may write to it.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    entries: Vec<Entry>,
    /// Names repeat in every entry and are kept once.
    names: BTreeSet<Arc<str>>,
}

impl Log {
    fn push(&mut self, entry: Entry) -> Position {
        self.entries.push(entry);
        self.entries.len() - 1
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.names.insert(name.clone());
        name
    }
}

impl History {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The event's transaction committed. Its order among those of its key is that of these calls;
    /// concurrent writers of one key use [`committed_as`](Self::committed_as).
    pub fn committed(&self, event: &Event) {
        self.written(event, WriteOutcome::Committed, None);
    }

    /// The event's transaction committed, and the database gave it this place among all commits.
    pub fn committed_as(&self, event: &Event, seq: u64) {
        self.written(event, WriteOutcome::Committed, Some(seq));
    }

    /// The event's transaction committed, and the database gave it this place among those of a key,
    /// whatever key the event itself has.
    pub(super) fn committed_in(&self, event: &Event, key: &str, seq: u64) {
        let digest = Digest::of(event);
        let mut log = self.lock();
        let (id, key) = (event.id(), Some(log.name(key)));
        log.push(Entry::Written {
            id,
            key,
            digest,
            outcome: WriteOutcome::Committed,
            seq: Some(seq),
        });
    }

    /// The event's transaction was rolled back.
    pub fn rolled_back(&self, event: &Event) {
        self.written(event, WriteOutcome::Aborted, None);
    }

    /// Nobody knows how the event's transaction ended. When it becomes known, say so: the last
    /// word counts, only a commit is never taken back.
    pub fn unknown(&self, event: &Event) {
        self.written(event, WriteOutcome::Unknown, None);
    }

    fn written(&self, event: &Event, outcome: WriteOutcome, seq: Option<u64>) {
        let digest = Digest::of(event);
        let mut log = self.lock();
        let key = event.ordering_key().map(|key| log.name(key));
        log.push(Entry::Written { id: event.id(), key, digest, outcome, seq });
    }

    /// A handler on `node` begins a run. Workers of one process that know nothing of each other are
    /// named `process/worker`: a fault of the process is one of each.
    pub fn delivery_started(&self, node: &str, delivery: &Delivery) -> Run {
        let digest = Digest::of(&delivery.event);
        let mut log = self.lock();
        let node = log.name(node);
        let (id, attempt) = (delivery.event.id(), delivery.attempt);
        let position = log.push(Entry::Started { node, id, attempt, digest });
        Run { history: self.clone(), position, open: true }
    }

    /// A handler in another process begins a run.
    pub fn run_started(&self, node: &str, event: &Event, attempt: u32) -> Position {
        let digest = Digest::of(event);
        let mut log = self.lock();
        let node = log.name(node);
        log.push(Entry::Started { node, id: event.id(), attempt, digest })
    }

    /// The run that began there has ended.
    pub fn run_finished(&self, started: Position, ok: bool) {
        self.push(Entry::Finished { started, ok });
    }

    /// A settlement by `node` reached the store. `applied` says whether it changed the row, and
    /// `current` whether the row was held by that, as seen by whoever looks into the store.
    pub fn settled(&self, node: &str, settlement: &Settlement, applied: bool, current: bool) {
        let mut log = self.lock();
        let node = log.name(node);
        let ending = Ending::from(&settlement.outcome);
        let Held { id, by } = settlement.held;
        log.push(Entry::Settled { node, id, by, ending, applied, current });
    }

    /// A node sent a move of its cursor. `applied` says whether it was made, and `current` whether it was
    /// the node's to make.
    pub(super) fn moved(&self, node: &str, to: u64, applied: bool, current: bool) {
        let mut log = self.lock();
        let node = log.name(node);
        log.push(Entry::Moved { node, to, applied, current });
    }

    /// Somebody decided about an event that had ended.
    pub fn decided(&self, id: EventId, decision: Decision) {
        self.push(Entry::Decided { id, decision });
    }

    /// Something broke. Log it before it takes effect, or what follows looks unexplained.
    pub fn fault(&self, fault: Fault) {
        self.push(Entry::Fault(fault));
    }

    /// How a row stands.
    pub fn stands(&self, id: EventId, status: Status, attempts: u32) {
        self.push(Entry::Stands { id, status, attempts });
    }

    /// How these rows stand.
    pub fn rows_stand(&self, rows: &[Row]) {
        for row in rows {
            self.stands(row.event.id(), row.status, row.attempts);
        }
    }

    /// Adds an entry as it is, for histories that come from elsewhere.
    pub fn push(&self, entry: Entry) -> Position {
        self.lock().push(entry)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of everything so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&[Entry]) -> T) -> T {
        read(&self.lock().entries)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        // An entry is pushed whole or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("entries", &self.len()).finish_non_exhaustive()
    }
}

/// A run that has begun. Dropping it says that it did not succeed: a handler that panics, times out
/// or goes down with its node does not come to say so itself.
#[derive(Debug)]
#[must_use = "a run that is dropped has failed"]
pub struct Run {
    history: History,
    position: Position,
    open: bool,
}

impl Run {
    /// The handler is done.
    pub fn finished(mut self, ok: bool) {
        self.end(ok);
    }

    fn end(&mut self, ok: bool) {
        self.open = false;
        self.history.push(Entry::Finished { started: self.position, ok });
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.open {
            self.end(false);
        }
    }
}
