//! An event as a handler or another sink receives it, with where it comes from.

use std::ops::Deref;
use std::sync::Arc;

use crate::event::Event;
use crate::journal::{Position, Recorded};
use crate::timestamp::Timestamp;

/// The way an event of an outbox came to its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// From memory, right after its commit.
    Hot,
    /// From the table, by the poller.
    Cold,
}

/// Where a delivered event comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A row of an outbox, and the way it came.
    Row(Lane),
    /// A row of an outbox that was delivered before, and is [replayed](crate::ReplayFilter): to a handler that somebody
    /// chose for that, and nothing about it is stored.
    Replay {
        /// When it was delivered, by the database's clock.
        done_at: Timestamp,
    },
    /// A fact of a journal, with its position, its tags, and what caused it.
    Fact(Arc<Recorded>),
}

/// One delivery of an event, as a handler sees it. Cheap to clone; dereferences to the event.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// When it was written, by the database's clock.
    pub created_at: Timestamp,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// Where it comes from.
    pub origin: Origin,
}

impl Delivery {
    /// A delivery of a fact.
    pub fn of_fact(fact: &Arc<Recorded>, attempt: u32) -> Self {
        Self {
            event: fact.event().clone(),
            created_at: fact.recorded_at,
            attempt,
            origin: Origin::Fact(Arc::clone(fact)),
        }
    }

    /// The way it came, where it is of an outbox.
    pub fn lane(&self) -> Option<Lane> {
        match self.origin {
            Origin::Row(lane) => Some(lane),
            Origin::Replay { .. } | Origin::Fact(_) => None,
        }
    }

    /// Whether it was delivered before, and is replayed.
    pub fn is_replay(&self) -> bool {
        matches!(self.origin, Origin::Replay { .. })
    }

    /// Its position, where it is of a journal.
    pub fn position(&self) -> Option<Position> {
        self.fact().map(|fact| fact.position)
    }

    /// The fact that it is of, where it is of a journal.
    pub fn fact(&self) -> Option<&Arc<Recorded>> {
        match &self.origin {
            Origin::Row(_) | Origin::Replay { .. } => None,
            Origin::Fact(fact) => Some(fact),
        }
    }
}

impl Deref for Delivery {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
