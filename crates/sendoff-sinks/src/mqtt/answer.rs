//! What an answer of a broker means.

use rumqttc::mqttbytes::v5::{ConnectReturnCode, DisconnectReasonCode, PubAckReason};
use rumqttc::{ConnectionError, StateError, mqttbytes};

use crate::class::{Class, Misconfigured, Trouble};

/// A reason that only the end of a connection has in MQTT.
const PACKET_TOO_LARGE: u8 = DisconnectReasonCode::PacketTooLarge as u8;

/// A broker did not take an event.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("the broker refused the event: {0:?}")]
    Acknowledged(PubAckReason),
    #[error("a packet of {bytes} bytes is larger than the broker takes, which is {most}")]
    TooLarge { bytes: usize, most: u32 },
    #[error("the broker ended the connection because of the event: {0}")]
    Ended(Lost),
}

/// Why a connection ended. The client's own errors can hold a message.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Lost {
    #[error(
        "the connection to the broker was lost; whether it has what was under way is not known"
    )]
    Connection,
    #[error(
        "the broker ended the connection ({0:?}); whether it has what was under way is not known"
    )]
    Said(DisconnectReasonCode),
    #[error("the broker acknowledged with reason {0:#04x}, which MQTT does not have for that")]
    Answered(u8),
}

impl From<&ConnectionError> for Lost {
    fn from(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, .. }) => {
                Self::Said(*reason_code)
            }
            // What the client calls every reason that it does not know.
            ConnectionError::MqttState(StateError::Deserialization(
                mqttbytes::Error::InvalidConnectReturnCode(reason),
            )) => Self::Answered(*reason),
            _ => Self::Connection,
        }
    }
}

impl Lost {
    /// What follows for the message that is why, where one can be.
    pub(super) fn of_a_message(&self) -> Option<Class> {
        match self {
            Self::Connection => None,
            // Mosquitto has it for payloads that are larger than its `message_size_limit`.
            Self::Answered(PACKET_TOO_LARGE) => Some(Class::Poison),
            Self::Answered(_) => Some(Class::REFUSED_NOW),
            Self::Said(reason) => match reason {
                DisconnectReasonCode::TopicNameInvalid
                | DisconnectReasonCode::PacketTooLarge
                | DisconnectReasonCode::PayloadFormatInvalid => Some(Class::Poison),
                DisconnectReasonCode::MalformedPacket
                | DisconnectReasonCode::ProtocolError
                | DisconnectReasonCode::ImplementationSpecificError => Some(Class::REFUSED_NOW),
                _ => None,
            },
        }
    }

    /// Why there is no connection any more.
    pub(super) fn trouble(&self) -> Trouble {
        match self {
            Self::Said(DisconnectReasonCode::SessionTakenOver) => taken_over().into(),
            Self::Said(DisconnectReasonCode::RetainNotSupported) => no_retain().into(),
            _ => Trouble::unavailable(self.clone()),
        }
    }
}

/// Another client came, and the broker ended this one's connection.
pub(super) fn taken_over() -> Misconfigured {
    Misconfigured::new("mqtt.client_id", "another client has the same one")
}

/// The broker keeps no messages for whoever comes later.
pub(super) fn no_retain() -> Misconfigured {
    Misconfigured::new("mqtt.retain", "the broker does not do that")
}

/// Why there is no connection.
pub(super) fn not_connected(error: ConnectionError) -> Trouble {
    let code = match &error {
        ConnectionError::ConnectionRefused(code)
        | ConnectionError::MqttState(StateError::ConnFail { reason: code }) => *code,
        #[cfg(feature = "mqtt-tls")]
        ConnectionError::Tls(_) => return Trouble::unavailable(error),
        ConnectionError::Io(_) | ConnectionError::Timeout(_) => {
            return Trouble::unavailable(error);
        }
        _ => return Lost::from(&error).trouble(),
    };
    let (path, reason) = match code {
        ConnectReturnCode::BadUserNamePassword
        | ConnectReturnCode::NotAuthorized
        | ConnectReturnCode::Banned
        | ConnectReturnCode::BadAuthenticationMethod => ("mqtt.auth", "the broker refuses it"),
        ConnectReturnCode::BadClientId | ConnectReturnCode::ClientIdentifierNotValid => {
            ("mqtt.client_id", "the broker refuses it")
        }
        ConnectReturnCode::RefusedProtocolVersion
        | ConnectReturnCode::UnsupportedProtocolVersion => {
            ("mqtt.server", "is a broker that does not know MQTT 5")
        }
        _ => return Trouble::unavailable(error),
    };
    Misconfigured::new(path, reason).into()
}

/// What follows for an event that was acknowledged with this reason. None: it is done.
pub(super) fn acknowledged(reason: PubAckReason) -> Option<(Class, sendoff_core::BoxError)> {
    let class = match reason {
        // Nobody was there to take it, which is no fault of the event's.
        PubAckReason::Success | PubAckReason::NoMatchingSubscribers => return None,
        PubAckReason::NotAuthorized => {
            let wrong = Misconfigured::new("mqtt.auth", "has no permission for the topic");
            return Some((Class::Misconfigured, wrong.into()));
        }
        PubAckReason::QuotaExceeded | PubAckReason::PacketIdentifierInUse => Class::Unavailable,
        PubAckReason::TopicNameInvalid | PubAckReason::PayloadFormatInvalid => Class::Poison,
        PubAckReason::UnspecifiedError | PubAckReason::ImplementationSpecificError => {
            Class::REFUSED_NOW
        }
    };
    Some((class, Refused::Acknowledged(reason).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_acknowledgement_has_its_class() {
        for (reason, expected) in [
            (PubAckReason::Success, None),
            (PubAckReason::NoMatchingSubscribers, None),
            (PubAckReason::NotAuthorized, Some(Class::Misconfigured)),
            (PubAckReason::QuotaExceeded, Some(Class::Unavailable)),
            (PubAckReason::TopicNameInvalid, Some(Class::Poison)),
            (PubAckReason::PayloadFormatInvalid, Some(Class::Poison)),
            (PubAckReason::UnspecifiedError, Some(Class::REFUSED_NOW)),
            (PubAckReason::ImplementationSpecificError, Some(Class::REFUSED_NOW)),
        ] {
            let class = acknowledged(reason).map(|(class, _)| class);
            assert_eq!(class, expected, "{reason:?}");
        }
    }

    #[test]
    fn a_broker_that_does_not_let_the_sink_in_says_why() {
        let of = |code| match not_connected(ConnectionError::ConnectionRefused(code)) {
            Trouble::Misconfigured(wrong) => Some(wrong.path().to_owned()),
            Trouble::Unavailable(_) => None,
        };
        let wrong = |path: &str| Some(path.to_owned());
        assert_eq!(of(ConnectReturnCode::BadUserNamePassword), wrong("mqtt.auth"));
        assert_eq!(of(ConnectReturnCode::NotAuthorized), wrong("mqtt.auth"));
        assert_eq!(of(ConnectReturnCode::ClientIdentifierNotValid), wrong("mqtt.client_id"));
        assert_eq!(of(ConnectReturnCode::UnsupportedProtocolVersion), wrong("mqtt.server"));
        assert_eq!(of(ConnectReturnCode::ServerBusy), None);
        assert_eq!(of(ConnectReturnCode::QuotaExceeded), None);
    }

    #[test]
    fn an_end_is_for_a_message_or_for_another_client_or_for_neither() {
        let ended = |reason_code| {
            let state = StateError::ServerDisconnect { reason_code, reason_string: None };
            Lost::from(&ConnectionError::MqttState(state))
        };
        let of = |reason_code| ended(reason_code).of_a_message();
        assert_eq!(of(DisconnectReasonCode::PacketTooLarge), Some(Class::Poison));
        assert_eq!(of(DisconnectReasonCode::ProtocolError), Some(Class::REFUSED_NOW));
        assert_eq!(of(DisconnectReasonCode::ServerShuttingDown), None);
        assert_eq!(Lost::from(&ConnectionError::RequestsDone).of_a_message(), None);
        let taken = ended(DisconnectReasonCode::SessionTakenOver).trouble();
        assert_eq!(taken.class(), Class::Misconfigured);
        let down = ended(DisconnectReasonCode::ServerShuttingDown).trouble();
        assert_eq!(down.class(), Class::Unavailable);
    }
}
