//! Pairs of topic and publisher, and whether they are active, paused or failed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::invalid::InvalidEvent;
use crate::journal::{Invalid, Position};
use crate::limits;
use crate::name;
use crate::timestamp::Timestamp;

/// A publisher of a topic. Each pair has a cursor of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairId {
    topic: String,
    publisher: String,
}

impl PairId {
    /// Checks both names.
    pub fn new(topic: impl Into<String>, publisher: impl Into<String>) -> Result<Self, Invalid> {
        let (topic, publisher) = (topic.into(), publisher.into());
        for (field, text) in [("topic", &topic), ("publisher", &publisher)] {
            if text.is_empty() {
                return Err(InvalidEvent::Empty { field }.into());
            }
            name::check(field, text, limits::TOPIC_CHARS)?;
        }
        Ok(Self { topic, publisher })
    }

    /// The pair a store kept, whatever its names are.
    pub fn restore(topic: String, publisher: String) -> Self {
        Self { topic, publisher }
    }

    /// Its topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Its publisher.
    pub fn publisher(&self) -> &str {
        &self.publisher
    }

    /// A number for it that is the same on every node and in every version (FNV-1a), by which a node
    /// says in few bytes which pairs it knows. Two pairs may share one: then a node is taken to know
    /// both.
    pub fn key(&self) -> i64 {
        let bytes = self.topic.bytes().chain([0]).chain(self.publisher.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash.cast_signed()
    }
}

impl fmt::Display for PairId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.topic, self.publisher)
    }
}

/// One run of a pair's publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishRun {
    /// The pair.
    pub pair: Arc<PairId>,
    /// What tells it from the other runs of this process.
    pub number: u64,
}

/// The fact that a pair waits at, because it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitsAt {
    /// Where that fact is; where a batch failed, its first fact that was not published.
    pub position: Position,
    /// Since when it fails, by the database's clock, whoever led the pair meanwhile.
    pub since: Timestamp,
}

/// Whether a pair is worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CursorStatus {
    /// It is.
    Active,
    /// Somebody stopped it.
    Paused,
    /// It stopped itself at a fact that could not be published.
    Failed,
}

impl CursorStatus {
    /// As it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Paused => "PAUSED",
            Self::Failed => "FAILED",
        }
    }
}

impl fmt::Display for CursorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CursorStatus {
    type Err = UnknownCursorStatus;

    fn from_str(text: &str) -> Result<Self, UnknownCursorStatus> {
        [Self::Active, Self::Paused, Self::Failed]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or(UnknownCursorStatus)
    }
}

/// Not a status of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is ACTIVE, PAUSED or FAILED")]
pub struct UnknownCursorStatus;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_their_numbers_do_not_run_into_each_other() {
        assert!(PairId::new("", "p").is_err() && PairId::new("t", "").is_err());
        assert!(PairId::new("t".repeat(limits::TOPIC_CHARS + 1), "p").is_err());
        let key = |topic, publisher| PairId::new(topic, publisher).unwrap().key();
        assert_ne!(key("a", "bc"), key("ab", "c"));
        // Stored by one version, read by the next.
        assert_eq!(key("wallets", "kafka"), key("wallets", "kafka"));
    }

    /// Holds J9.
    #[test]
    fn a_status_is_what_operators_write() {
        for status in [CursorStatus::Active, CursorStatus::Paused, CursorStatus::Failed] {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert_eq!("active".parse::<CursorStatus>(), Err(UnknownCursorStatus));
    }
}
