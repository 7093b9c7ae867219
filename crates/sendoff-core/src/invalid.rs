//! Reasons for which an event is refused before any SQL is sent.

use std::time::Duration;

/// Why an event was refused. Nothing was stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEvent {
    /// A required field is empty.
    #[error("{field} must not be empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// A text field is too long.
    #[error("{field} has {chars} characters; the limit is {limit}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Characters given.
        chars: usize,
        /// Characters allowed.
        limit: usize,
    },
    /// A text field has a character that would break a protocol or a database on its way.
    #[error("{field} must not contain {character:?}")]
    Character {
        /// The field.
        field: &'static str,
        /// The first offending character.
        character: char,
    },
    /// It is to be ordered by its aggregate, and names none.
    #[error(
        "ordered by its aggregate, but aggregate_id is missing: set it, or give an ordering_key"
    )]
    NothingToOrderBy,
    /// Neither JSON nor bytes were given.
    #[error("payload is missing: give JSON or bytes")]
    NoPayload,
    /// More than one payload was given.
    #[error("payload was given more than once: give JSON or bytes, one of them, once")]
    TwoPayloads,
    /// The payload is too large.
    #[error("payload is {bytes} bytes; the limit is {limit}")]
    PayloadTooLarge {
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The payload was declared as JSON and is not.
    #[error("payload is not valid JSON")]
    NotJson(#[source] serde_json::Error),
    /// The payload of a topic's event is JSON, but no object.
    #[error("payload must be a JSON object, such as {{\"id\": 1}}")]
    NotAnObject,
    /// The value could not be turned into JSON.
    #[error("payload could not be serialised")]
    Unserialisable(#[source] serde_json::Error),
    /// The value of a header could not be turned into JSON.
    #[error("header {header:?} could not be serialised")]
    UnserialisableHeader {
        /// The header's name.
        header: String,
        /// Why.
        source: serde_json::Error,
    },
    /// There are too many headers.
    #[error("headers: {count} given; the limit is {limit}")]
    TooManyHeaders {
        /// Headers given.
        count: usize,
        /// Headers allowed.
        limit: usize,
    },
    /// The headers are too large together.
    #[error("headers are {bytes} bytes together; the limit is {limit}")]
    HeadersTooLarge {
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The delay is too long.
    #[error("delay is {} s; the limit is {} s", delay.as_secs(), limit.as_secs())]
    DelayTooLong {
        /// The delay given.
        delay: Duration,
        /// The longest allowed.
        limit: Duration,
    },
}
