//! What an answer of RabbitMQ means.

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::{Error, ErrorKind};

use crate::class::{Class, Misconfigured, Trouble};

/// RabbitMQ did not take an event. Its own words are left out: they can have names that were made of an event's headers.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("RabbitMQ closed the channel because of the event: {0}")]
    Closed(u16),
    #[error("RabbitMQ closed the channel, and did not say why")]
    Unsaid,
    #[error("no queue takes the event ({0})")]
    Returned(u16),
    #[error("a queue did not take the event (basic.nack): it is full, or failed")]
    Nack,
    #[error("headers of {bytes} bytes do not fit into a frame, which has {frame}")]
    Headers { bytes: usize, frame: u32 },
}

/// RabbitMQ takes no messages from anybody, because of its memory or its disk.
#[derive(Debug, thiserror::Error)]
#[error("RabbitMQ has blocked the connection: an alarm of its memory or its disk is on")]
pub(super) struct Blocked;

/// The server takes long to confirm messages.
#[derive(Debug, thiserror::Error)]
#[error(
    "it was not sent: RabbitMQ takes long to confirm those before it, and the time of its batch is over"
)]
pub(super) struct NoTime;

/// The connection is gone, with whatever was under way.
#[derive(Debug, thiserror::Error)]
#[error("no connection to RabbitMQ; whether it has what was under way is not known")]
struct Lost(#[source] Error);

/// Why a channel was closed, where the server said so.
fn said(error: &Error) -> Option<&AMQPErrorKind> {
    match error.kind() {
        ErrorKind::ProtocolError(said) => Some(said.kind()),
        _ => None,
    }
}

/// Why there is no connection.
pub(super) fn not_connected(error: Error) -> Trouble {
    let wrong = |path, reason| Misconfigured::new(path, reason).into();
    match said(&error) {
        Some(AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)) => {
            wrong("rabbitmq.auth", "the server refuses it")
        }
        Some(AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED)) => {
            wrong("rabbitmq.vhost", "there is none of this name, or the user has no access to it")
        }
        _ => lost(error),
    }
}

/// The connection was lost.
pub(super) fn lost(error: Error) -> Trouble {
    Trouble::unavailable(Lost(error))
}

/// What is wrong for all events of an exchange, where a channel was closed because of that.
pub(super) fn wrong_exchange(error: &Error) -> Option<Misconfigured> {
    match said(error) {
        Some(AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND)) => {
            Some(Misconfigured::new("rabbitmq.exchange", "there is no such exchange"))
        }
        _ => None,
    }
}

/// What is wrong for all events of an exchange and a routing key, where a channel was closed because of that.
pub(super) fn no_right(error: &Error) -> Option<Misconfigured> {
    match said(error) {
        Some(AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)) => Some(not_allowed()),
        _ => None,
    }
}

/// The server does not let the sink's user publish, or look at the exchange.
fn not_allowed() -> Misconfigured {
    Misconfigured::new("rabbitmq.auth", "has no permission for what the sink does")
}

/// What follows for the one event that a channel was closed by.
pub(super) fn closed(error: &Error) -> (Class, sendoff_core::BoxError) {
    let Some(kind) = said(error) else {
        return (Class::Unavailable, Refused::Unsaid.into());
    };
    let class = match kind {
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
            return (Class::Misconfigured, not_allowed().into());
        }
        // Too large, or a property that the server does not take.
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED | AMQPSoftError::CONTENTTOOLARGE) => {
            Class::Poison
        }
        AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) | AMQPErrorKind::Hard(_) => {
            Class::Unavailable
        }
        // Of these an exchange that is not there: somebody may make it.
        AMQPErrorKind::Soft(_) => Class::REFUSED_NOW,
    };
    (class, Refused::Closed(kind.get_id()).into())
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use super::*;

    fn answer(code: u16) -> Error {
        ErrorKind::ProtocolError(AMQPError::from_id(code, "canary".into()).unwrap()).into()
    }

    #[test]
    fn each_answer_has_its_class() {
        for (code, expected) in [
            (311, Class::Poison),
            (406, Class::Poison),
            (404, Class::REFUSED_NOW),
            (403, Class::Misconfigured),
            (405, Class::Unavailable),
            (506, Class::Unavailable),
            (541, Class::Unavailable),
        ] {
            let (class, error) = closed(&answer(code));
            assert_eq!(class, expected, "{code}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{code}");
        }
        let (class, _) = closed(&ErrorKind::MissingHeartbeatError.into());
        assert_eq!(class, Class::Unavailable);
    }

    #[test]
    fn what_is_wrong_for_all_is_named() {
        let of = |code| {
            let error = answer(code);
            let wrong = wrong_exchange(&error).or_else(|| no_right(&error));
            wrong.map(|wrong| wrong.path().to_owned())
        };
        assert_eq!(of(404).as_deref(), Some("rabbitmq.exchange"));
        assert_eq!(of(403).as_deref(), Some("rabbitmq.auth"));
        assert_eq!(of(406), None);
    }

    #[test]
    fn a_server_that_does_not_let_the_sink_in_says_why() {
        let of = |code| match not_connected(answer(code)) {
            Trouble::Misconfigured(wrong) => Some(wrong.path().to_owned()),
            Trouble::Unavailable(_) => None,
        };
        assert_eq!(of(403).as_deref(), Some("rabbitmq.auth"));
        assert_eq!(of(530).as_deref(), Some("rabbitmq.vhost"));
        assert_eq!(of(320), None);
        assert_eq!(of(541), None);
    }
}
