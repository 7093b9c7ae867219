//! An event as a handler or another sink receives it, with where it comes from.

use std::ops::Deref;
use std::sync::Arc;

use crate::event::Event;
use crate::journal::publish::PublishRun;
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
    Fact {
        /// The fact.
        fact: Arc<Recorded>,
        /// The run of its publisher, where that settles facts in transactions of its own.
        run: Option<Arc<PublishRun>>,
    },
    /// Any of these, for one of several handlers that the event has side by side: it is delivered when all of them are
    /// done, and none of them can say so for the others.
    OneOfSeveral(Box<Origin>),
}

impl Origin {
    /// Where the event comes from, however many handlers it has.
    pub fn whole(&self) -> &Self {
        match self {
            Self::OneOfSeveral(origin) => origin.whole(),
            Self::Row(_) | Self::Replay { .. } | Self::Fact { .. } => self,
        }
    }
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
            origin: Origin::Fact { fact: Arc::clone(fact), run: None },
        }
    }

    /// The same in a run of a publisher that settles facts in transactions of its own.
    #[must_use]
    pub fn in_run(mut self, of: &Arc<PublishRun>) -> Self {
        if let Origin::Fact { run, .. } = &mut self.origin {
            *run = Some(Arc::clone(of));
        }
        self
    }

    /// The same for one of several handlers that the event has side by side.
    #[must_use]
    pub fn for_one_of_several(mut self) -> Self {
        self.origin = Origin::OneOfSeveral(Box::new(self.origin));
        self
    }

    /// Whether it is for one of several handlers that the event has side by side.
    pub fn is_for_one_of_several(&self) -> bool {
        matches!(self.origin, Origin::OneOfSeveral(_))
    }

    /// The way it came, where it is of an outbox.
    pub fn lane(&self) -> Option<Lane> {
        match self.origin.whole() {
            Origin::Row(lane) => Some(*lane),
            _ => None,
        }
    }

    /// Whether it was delivered before, and is replayed.
    pub fn is_replay(&self) -> bool {
        matches!(self.origin.whole(), Origin::Replay { .. })
    }

    /// Its position, where it is of a journal.
    pub fn position(&self) -> Option<Position> {
        self.fact().map(|fact| fact.position)
    }

    /// The run of its publisher, where that settles facts in transactions of its own.
    pub fn publish_run(&self) -> Option<&Arc<PublishRun>> {
        match self.origin.whole() {
            Origin::Fact { run, .. } => run.as_ref(),
            _ => None,
        }
    }

    /// The fact that it is of, where it is of a journal.
    pub fn fact(&self) -> Option<&Arc<Recorded>> {
        match self.origin.whole() {
            Origin::Fact { fact, .. } => Some(fact),
            _ => None,
        }
    }
}

impl Deref for Delivery {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
