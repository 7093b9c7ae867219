//! What an answer of Kafka, or of its client, means.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::class::{Class, Misconfigured, Trouble};

/// Why a record was not confirmed. Nothing of the record is in it, which the client gives back with its own error.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the producer was given up; whether Kafka has the event is not known")]
    Lost,
    #[error("Kafka did not take the event: {0}")]
    Kafka(Code),
}

impl From<KafkaError> for Refusal {
    fn from(error: KafkaError) -> Self {
        error.rdkafka_error_code().map_or(Self::Lost, Self::Kafka)
    }
}

/// What follows for the event, and for the producer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// The event has this class; the producer is as good as before.
    Event(Class),
    /// The event is misconfigured because of this option; the producer is as good as before.
    Wrong(&'static str, &'static str),
    /// Nothing is known before the brokers were asked about the topic.
    Ask,
    /// It may be the fault of others in the same request: it is sent again alone.
    Alone,
    /// The producer is given up.
    Reopen,
}

/// Whether a record was sent with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    Others,
    None,
}

impl Refusal {
    pub(super) fn follows(&self, company: Company) -> Follows {
        let Self::Kafka(code) = self else { return Follows::Reopen };
        match code {
            Code::PurgeQueue | Code::PurgeInflight | Code::Fatal | Code::State => Follows::Reopen,
            // Also what a topic that is not there looks like.
            Code::MessageTimedOut
            | Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::UnknownTopicId
            | Code::UnknownPartition => Follows::Ask,
            // Brokers answer for all records of a request.
            Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidRecord
            | Code::InvalidDifferentRecord => match company {
                Company::Others => Follows::Alone,
                Company::None => Follows::Event(Class::Poison),
            },
            Code::InvalidTopic => Follows::Event(Class::Poison),
            Code::TopicAuthorizationFailed => {
                Follows::Wrong("kafka.auth", "has no permission to write to the topic")
            }
            Code::ClusterAuthorizationFailed => Follows::Reopen,
            // Headers, which make an event what it is, came with 0.11.
            Code::UnsupportedForMessageFormat | Code::UnsupportedVersion => Follows::Wrong(
                "kafka.brokers",
                "do not take records with headers (message format 2, Kafka 0.11)",
            ),
            Code::UnsupportedCompressionType => {
                Follows::Wrong("kafka.properties.compression.type", "the brokers refuse it")
            }
            // Records have the time of this machine's clock, and not the event's.
            Code::InvalidTimestamp => Follows::Wrong(
                "kafka.topic",
                "does not take the time of this machine's clock (message.timestamp.after.max.ms, .before.max.ms)",
            ),
            Code::InvalidRequiredAcks => {
                Follows::Wrong("kafka.topic", "does not take acks=all as it is configured")
            }
            Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::TimedOutQueue
            | Code::QueueFull
            | Code::ISRInsufficient
            | Code::Resolve
            | Code::SSL
            | Code::Authentication
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::RequestTimedOut
            | Code::BrokerNotAvailable
            | Code::ReplicaNotAvailable
            | Code::NetworkException
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::KafkaStorageError
            | Code::ThrottlingQuotaExceeded
            | Code::OutOfOrderSequenceNumber
            | Code::UnknownProducerId
            | Code::InvalidProducerEpoch
            | Code::GaplessGuarantee
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch => Follows::Event(Class::Unavailable),
            _ => Follows::Event(Class::REFUSED_NOW),
        }
    }
}

/// Why a producer is of no use any more.
pub(super) fn fatal(code: Code) -> Trouble {
    match code {
        Code::ClusterAuthorizationFailed => {
            let reason = "has no permission for idempotent writes (IdempotentWrite)";
            Misconfigured::new("kafka.auth", reason).into()
        }
        code => Trouble::unavailable(Fatal(code)),
    }
}

/// Whether an error that the client tells to nobody in particular is about who the sink is.
pub(super) fn is_about_auth(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::Authentication
                | Code::SaslAuthenticationFailed
                | Code::UnsupportedSASLMechanism
                | Code::IllegalSASLState
        )
    )
}

#[derive(Debug, thiserror::Error)]
#[error("the producer met a fatal error: {0}")]
struct Fatal(Code);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_has_its_class() {
        for (code, follows) in [
            (Code::MessageTimedOut, Follows::Ask),
            (Code::UnknownTopicOrPartition, Follows::Ask),
            (Code::MessageSizeTooLarge, Follows::Alone),
            (Code::InvalidRecord, Follows::Alone),
            (Code::InvalidTopic, Follows::Event(Class::Poison)),
            (Code::NotEnoughReplicas, Follows::Event(Class::Unavailable)),
            (Code::KafkaStorageError, Follows::Event(Class::Unavailable)),
            (Code::ThrottlingQuotaExceeded, Follows::Event(Class::Unavailable)),
            (Code::PolicyViolation, Follows::Event(Class::REFUSED_NOW)),
            (Code::PurgeInflight, Follows::Reopen),
            (Code::Fatal, Follows::Reopen),
        ] {
            assert_eq!(Refusal::Kafka(code).follows(Company::Others), follows, "{code:?}");
        }
        assert_eq!(Refusal::Lost.follows(Company::Others), Follows::Reopen);
        let refused = Refusal::Kafka(Code::TopicAuthorizationFailed).follows(Company::Others);
        assert!(matches!(refused, Follows::Wrong("kafka.auth", _)), "{refused:?}");
        let late = Refusal::Kafka(Code::InvalidTimestamp).follows(Company::None);
        assert!(matches!(late, Follows::Wrong("kafka.topic", _)), "{late:?}");
        let alone = Refusal::Kafka(Code::MessageSizeTooLarge).follows(Company::None);
        assert_eq!(alone, Follows::Event(Class::Poison));
    }

    #[test]
    fn a_fatal_error_is_no_reason_to_give_up() {
        assert_eq!(fatal(Code::OutOfOrderSequenceNumber).class(), Class::Unavailable);
        assert_eq!(fatal(Code::ClusterAuthorizationFailed).class(), Class::Misconfigured);
    }
}
