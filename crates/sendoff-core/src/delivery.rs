use std::ops::Deref;

use crate::event::Event;
use crate::timestamp::Timestamp;

/// The way an event came to its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// From memory, right after its commit.
    Hot,
    /// From the table, by the poller.
    Cold,
}

/// One delivery of an event, as a handler sees it. Cheap to clone; dereferences to the event.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// When its row was created, by the database's clock.
    pub created_at: Timestamp,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The way it came.
    pub lane: Lane,
}

impl Deref for Delivery {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
