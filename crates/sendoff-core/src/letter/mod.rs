//! Dead letters: events that no attempt is left for, until an operator decides.

mod filter;

use crate::{EventId, Timestamp};

pub use filter::{InvalidFilter, LetterFilter};
pub(crate) use filter::{check_names, check_times, is};

/// A dead letter, without its payload and headers. Whatever stands in its row, it can be shown: text that
/// cannot be read is a replacement character (`U+FFFD`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Its event's id.
    pub id: EventId,
    /// Its number in the table.
    pub seq: i64,
    /// Its event's type.
    pub event_type: String,
    /// The kind of aggregate; [`GLOBAL_AGGREGATE`](crate::GLOBAL_AGGREGATE) for none.
    pub aggregate_type: String,
    /// The aggregate.
    pub aggregate_id: Option<String>,
    /// The tenant.
    pub tenant_id: Option<String>,
    /// Attempts that were counted.
    pub attempts: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it died, by the database's clock.
    pub died_at: Timestamp,
    /// The last error.
    pub last_error: Option<String>,
}

impl Letter {
    /// Where it stands among the others.
    pub const fn position(&self) -> LetterPosition {
        LetterPosition { died_at: self.died_at, seq: self.seq }
    }

    /// This death of it: an event that was requeued and died again has another.
    pub const fn death(&self) -> Death {
        Death { id: self.id, died_at: Some(self.died_at) }
    }
}

/// The place of a letter among all: by the time it died, then by its number. Pages are continued by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterPosition {
    /// When it died.
    pub died_at: Timestamp,
    /// Its number.
    pub seq: i64,
}

/// A letter that something is to be done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Death {
    /// The event.
    pub id: EventId,
    /// Only if it is the one that died then.
    pub died_at: Option<Timestamp>,
}

impl Death {
    /// Whenever it died.
    pub const fn of(id: EventId) -> Self {
        Self { id, died_at: None }
    }
}

/// Which letters come first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LetterOrder {
    /// Those that died first.
    #[default]
    OldestFirst,
    /// Those that died last.
    NewestFirst,
}

impl LetterOrder {
    /// What is for this order, of what there is for either.
    pub fn choose<T>(self, oldest_first: T, newest_first: T) -> T {
        match self {
            Self::OldestFirst => oldest_first,
            Self::NewestFirst => newest_first,
        }
    }
}

/// How many letters there are, as far as they were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterCount {
    /// So many.
    Exactly(u64),
    /// So many were counted, and there are more.
    AtLeast(u64),
}

impl LetterCount {
    /// Of so many that were found where no more than one beyond `most` was looked for.
    pub const fn found(found: u64, most: u64) -> Self {
        if found > most { Self::AtLeast(most) } else { Self::Exactly(found) }
    }

    /// How many were counted.
    pub const fn counted(self) -> u64 {
        match self {
            Self::Exactly(count) | Self::AtLeast(count) => count,
        }
    }

    /// Whether that is all of them.
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Exactly(_))
    }
}

impl std::fmt::Display for LetterCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(count) => write!(f, "{count}"),
            Self::AtLeast(count) => write!(f, "at least {count}"),
        }
    }
}

/// What an operator does to dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LetterAct {
    /// They are NEW again, due now, as if they had never been tried; their last error stays.
    Requeue,
    /// They are deleted. Only the audit remembers them.
    Discard,
}

impl LetterAct {
    /// What the audit calls it.
    pub const fn action(self) -> crate::AuditAction {
        match self {
            Self::Requeue => crate::AuditAction::Requeue,
            Self::Discard => crate::AuditAction::Discard,
        }
    }
}

/// What became of a letter that was to be requeued or discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LetterFate {
    /// It was requeued, or discarded.
    Done,
    /// It is not dead: somebody else requeued it, or it never was.
    NotDead {
        /// Where it stands.
        status: crate::Status,
    },
    /// It was requeued by somebody else, and died again since: that is for another act.
    DiedAgain,
    /// There is no such event, or no more.
    NotFound,
    /// Somebody has its row locked, and it was not waited for. It is as it was.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_says_whether_it_is_all_of_them() {
        let (all, more) = (LetterCount::found(10, 10), LetterCount::found(11, 10));
        assert_eq!((all.counted(), all.is_exact(), all.to_string()), (10, true, "10".into()));
        assert_eq!((more.counted(), more.is_exact()), (10, false));
        assert_eq!(more.to_string(), "at least 10");
    }

    #[test]
    fn letters_stand_in_the_order_in_which_they_died() {
        let at = |micros, seq| LetterPosition { died_at: Timestamp::from_micros(micros), seq };
        assert!(at(1, 9) < at(2, 1) && at(2, 1) < at(2, 2));
    }
}
