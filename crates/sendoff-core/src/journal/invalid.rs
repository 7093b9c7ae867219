//! What a journal refuses before any SQL.

use crate::invalid::InvalidEvent;

/// Why something of the journal was refused before any SQL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// The event in it was refused.
    #[error(transparent)]
    Event(#[from] InvalidEvent),
    /// A part of a tag is missing.
    #[error("a tag is written key=value; {part} must not be empty")]
    EmptyTag {
        /// `key` or `value`.
        part: &'static str,
    },
    /// A tag's key has the character that ends it.
    #[error("a tag's key must not contain '=': the first one ends it")]
    KeyWithEquals,
    /// A list is longer than it may be.
    #[error("{what}: {count} given; the limit is {limit}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many were given.
        count: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// The payloads of one append are too large together.
    #[error("the payloads of one append are {bytes} bytes together; the limit is {limit}")]
    TooLarge {
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// An append without a fact.
    #[error("there is nothing to append: an append takes at least one fact")]
    NoFacts,
    /// Two facts of one append have the same id.
    #[error("two facts of one append have the same event id")]
    SameId,
    /// The journal has no delay: a fact has happened.
    #[error("a fact cannot be delayed: what is in the journal has happened")]
    Delayed,
}

/// Holds a list to its limit.
pub(super) fn at_most(what: &'static str, count: usize, limit: usize) -> Result<(), Invalid> {
    if count > limit { Err(Invalid::TooMany { what, count, limit }) } else { Ok(()) }
}
