//! What an answer of JetStream means.

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{self, ErrorCode};

use crate::class::Class;

/// Why a message was not acknowledged. Nothing of the message is in it, which the client's own errors can hold.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the connection was lost; whether the stream has the event is not known")]
    Lost,
    #[error("the stream did not acknowledge the event in time; whether it has it is not known")]
    Silent,
    #[error("the server denied others at that time, and perhaps this one: there is no answer")]
    Unheard,
    #[error("no stream takes the subject at present")]
    NoStream,
    #[error("the message is larger than the server takes (max_payload)")]
    TooLarge,
    #[error("JetStream refused the event")]
    JetStream(#[source] jetstream::Error),
}

impl From<PublishError> for Refusal {
    fn from(error: PublishError) -> Self {
        match error.kind() {
            PublishErrorKind::StreamNotFound => Self::NoStream,
            PublishErrorKind::TimedOut | PublishErrorKind::MaxAckPending => Self::Silent,
            PublishErrorKind::MaxPayloadExceeded => Self::TooLarge,
            // The server's own error is behind the last of these; without one the client ended.
            PublishErrorKind::BrokenPipe
            | PublishErrorKind::WrongLastMessageId
            | PublishErrorKind::WrongLastSequence
            | PublishErrorKind::Other => {
                let source = std::error::Error::source(&error);
                let answered = source.and_then(|source| source.downcast_ref::<jetstream::Error>());
                answered.map_or(Self::Lost, |answered| Self::JetStream(answered.clone()))
            }
        }
    }
}

/// What follows for the event, and for the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// The event has this class; the connection is as good as before.
    Event(Class),
    /// The connection is given up, and the stream looked at again by the next one.
    Reopen,
}

impl Refusal {
    /// What follows, for a subject that the stream covers or not, as far as is known, and with this class where it is full.
    pub(super) fn follows(&self, is_covered: bool, full: Class) -> Follows {
        let (code, status) = match self {
            Self::Lost | Self::Silent => return Follows::Reopen,
            Self::Unheard => return Follows::Event(Class::Unavailable),
            Self::TooLarge => return Follows::Event(Class::Poison),
            // Deleted, or without a leader: which of them it is is seen when it is looked at again. Where others of the
            // template's subjects are covered it is this event's own trouble, until somebody adds the subject.
            Self::NoStream => return not_covered(is_covered),
            Self::JetStream(error) => (error.error_code(), error.code()),
        };
        Follows::Event(match code {
            ErrorCode::STREAM_NOT_MATCH => return not_covered(is_covered),
            ErrorCode::STREAM_SEALED => return Follows::Reopen,
            ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM
            | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => Class::Poison,
            ErrorCode::STREAM_STORE_FAILED => full,
            // Without a disk, or its account is full; or it is still busy with the same id.
            ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
            | ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT => Class::Unavailable,
            _ if status == 429 || status >= 500 => Class::Unavailable,
            _ => Class::REFUSED_NOW,
        })
    }
}

fn not_covered(is_covered: bool) -> Follows {
    if is_covered { Follows::Reopen } else { Follows::Event(Class::REFUSED_NOW) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u64, code: u64) -> Refusal {
        let error = serde_json::json!({ "code": status, "err_code": code, "description": "no" });
        Refusal::JetStream(serde_json::from_value(error).unwrap())
    }

    #[test]
    fn each_answer_has_its_class() {
        let event = Follows::Event;
        for (refusal, follows) in [
            (Refusal::Lost, Follows::Reopen),
            (Refusal::Silent, Follows::Reopen),
            (Refusal::Unheard, event(Class::Unavailable)),
            (Refusal::NoStream, Follows::Reopen),
            (Refusal::TooLarge, event(Class::Poison)),
            (answer(400, 10060), Follows::Reopen),
            (answer(400, 10109), Follows::Reopen),
            (answer(400, 10054), event(Class::Poison)),
            (answer(400, 10097), event(Class::Poison)),
            (answer(503, 10077), event(Class::Unavailable)),
            (answer(400, 10002), event(Class::Unavailable)),
            (answer(409, 10158), event(Class::Unavailable)),
            (answer(429, 10167), event(Class::Unavailable)),
            (answer(503, 10023), event(Class::Unavailable)),
            (answer(500, 10047), event(Class::Unavailable)),
            (answer(400, 10071), event(Class::REFUSED_NOW)),
        ] {
            assert_eq!(refusal.follows(true, Class::Unavailable), follows, "{refusal:?}");
        }
    }

    #[test]
    fn a_subject_that_is_not_covered_or_full_is_its_events_own_trouble() {
        for refusal in [Refusal::NoStream, answer(400, 10060)] {
            assert_eq!(
                refusal.follows(false, Class::Unavailable),
                Follows::Event(Class::REFUSED_NOW)
            );
        }
        let full = answer(503, 10077);
        assert_eq!(full.follows(true, Class::REFUSED_NOW), Follows::Event(Class::REFUSED_NOW));
    }

    /// A client that ended has the message that it did not send in its error.
    #[test]
    fn an_error_of_the_client_is_not_kept() {
        let error = PublishError::with_source(PublishErrorKind::Other, "canary");
        let refusal = Refusal::from(error);
        assert!(matches!(refusal, Refusal::Lost) && !format!("{refusal:?}").contains("canary"));
    }
}
