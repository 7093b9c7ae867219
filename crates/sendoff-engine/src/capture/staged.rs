//! The receipt for events in a transaction of the caller's.

use std::fmt;
use std::sync::Arc;

use sendoff_core::EventId;

use crate::source::{Handover, HotRow};

/// The receipt for events written into a transaction that is not ours.
///
/// Call [`release`](Self::release) after the commit, and they are delivered at once. Forgetting it
/// costs latency, never the event: the row becomes visible to every poller when its grace is over.
#[must_use = "release it after the commit, or delivery waits for the poller"]
pub struct Staged<Id = EventId> {
    id: Id,
    rows: Vec<HotRow>,
    handover: Option<Arc<Handover>>,
}

impl<Id> Staged<Id> {
    pub(crate) fn new(id: Id, rows: Vec<HotRow>, handover: Option<Arc<Handover>>) -> Self {
        Self { id, rows, handover }
    }

    /// Says that the transaction committed. The database is asked whether that is so, and only then
    /// does anything leave: a commit that was answered with a rollback releases nothing.
    ///
    /// After a commit that was not answered, drop the receipt: MySQL and MariaDB show what a crash may still
    /// take back, and a poller proves more than this does.
    pub fn release(self) {
        if let Some(handover) = self.handover {
            handover.confirm(self.rows);
        }
    }
}

impl Staged<EventId> {
    /// The id of the event.
    pub fn id(&self) -> EventId {
        self.id
    }
}

impl Staged<Vec<EventId>> {
    /// The ids of the events, in the order they were given.
    pub fn ids(&self) -> &[EventId] {
        &self.id
    }
}

impl<Id: fmt::Debug> fmt::Debug for Staged<Id> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Staged").field(&self.id).finish()
    }
}
