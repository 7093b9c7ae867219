//! What a handler is registered for, and why it may not be.

use std::fmt;

use sendoff_core::{AggregateType, EventType, GLOBAL_AGGREGATE};

use crate::options::OptionsError;

/// What a handler is registered for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registration {
    /// Events of one type about one kind of aggregate.
    Kind {
        /// The aggregate type; [`GLOBAL_AGGREGATE`] for none.
        aggregate_type: String,
        /// The event type.
        event_type: String,
    },
    /// Everything that no other handler takes.
    Else,
    /// What a function decides that it gets, by this name.
    Named(String),
}

impl Registration {
    /// Events of this type without an aggregate.
    pub fn of(event_type: impl EventType) -> Self {
        Self::of_aggregate(GLOBAL_AGGREGATE, event_type)
    }

    /// Events of this type about this kind of aggregate.
    pub fn of_aggregate(aggregate_type: impl AggregateType, event_type: impl EventType) -> Self {
        let (aggregate_type, event_type) = (aggregate_type.name(), event_type.name());
        Self::Kind { aggregate_type: aggregate_type.to_owned(), event_type: event_type.to_owned() }
    }
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind { aggregate_type, event_type } => {
                write!(f, "for ({aggregate_type}, {event_type})")
            }
            Self::Else => f.write_str("for everything else"),
            Self::Named(name) => write!(f, "under the name {name:?}"),
        }
    }
}

/// There is such a handler already.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a handler {0} is registered already")]
pub struct DuplicateHandler(pub Registration);

/// Why handlers were not registered while it runs. None of them is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is such a handler already.
    #[error(transparent)]
    Duplicate(#[from] DuplicateHandler),
    /// What a handler says of itself is out of range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Too many kinds of events had a handler since it was started.
    #[error("more than {limit} kinds of events would have had a handler since the start")]
    TooMany {
        /// How many may have.
        limit: usize,
    },
    /// It has one handler for everything, and was built so.
    #[error("this relay was built with one handler for everything: build it with `build_routed`")]
    OneForAll,
    /// It only writes.
    #[error("this outbox only writes: handlers belong to one that delivers")]
    OnlyWrites,
}
