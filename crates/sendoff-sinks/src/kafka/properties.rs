//! Properties of the client: those that the sink sets, and those that are free.

use std::collections::BTreeMap;

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

use crate::class::Misconfigured;
use crate::secret::Secret;

/// What is so unless the options say otherwise.
pub(super) const DEFAULTS: [(&str, &str); 1] = [
    // A batch is handed over as a whole: nothing more comes by waiting, which costs one event its 5 ms, and a thousand too.
    ("linger.ms", "0"),
];

/// What the sink promises by.
pub(super) const OURS: [(&str, &str); 3] =
    [("acks", "all"), ("enable.idempotence", "true"), ("partitioner", "murmur2_random")];

/// What the sink sets, where it is set, and other names for it. What would undo a promise is here too.
const TAKEN: [(&str, &str); 26] = [
    ("acks", "always all"),
    ("bootstrap.servers", "kafka.brokers"),
    ("client.id", "kafka.name"),
    ("delivery.report.only.error", "always false: an event is done by its report"),
    ("delivery.timeout.ms", "kafka.link.deliver_within"),
    ("enable.idempotence", "always true"),
    ("enable.sasl.oauthbearer.unsecure.jwt", "never"),
    ("enable.ssl.certificate.verification", "always true"),
    ("log.queue", "the sink's own"),
    ("message.send.max.retries", "as often as the time allows"),
    ("message.timeout.ms", "kafka.link.deliver_within"),
    ("metadata.broker.list", "kafka.brokers"),
    ("partitioner", "always murmur2_random"),
    ("plugin.library.paths", "never"),
    ("request.required.acks", "always all"),
    ("retries", "as often as the time allows"),
    ("sasl.mechanism", "kafka.auth.mechanism"),
    ("sasl.mechanisms", "kafka.auth.mechanism"),
    ("sasl.password", "kafka.auth.password"),
    ("sasl.username", "kafka.auth.user"),
    ("security.protocol", "kafka.tls and kafka.auth"),
    ("ssl.ca.location", "kafka.root_certificates"),
    ("ssl.endpoint.identification.algorithm", "always https"),
    ("test.mock.num.brokers", "never"),
    ("topic.metadata.refresh.sparse", "always true"),
    ("transactional.id", "never"),
];

/// Whether none of them is the sink's own.
pub(super) fn check(properties: &BTreeMap<String, Secret>) -> Result<(), Misconfigured> {
    for (name, value) in properties {
        let path = || format!("kafka.properties.{name}");
        if let Some((_, instead)) = TAKEN.iter().find(|(taken, _)| taken == name) {
            let reason = format_args!("is set by the sink ({instead})");
            return Err(Misconfigured::new(path(), reason));
        }
        if name.contains('\0') || value.expose().contains('\0') {
            return Err(Misconfigured::new(path(), "has a NUL"));
        }
    }
    Ok(())
}

/// Why there is no client. What the client itself says can have values in it, of which some are secrets: it is passed on
/// where no client was made of values that are right by themselves, and has none of `secrets` in it.
pub(super) fn refused<'s>(
    error: &KafkaError,
    secrets: impl IntoIterator<Item = &'s str>,
) -> Misconfigured {
    match error {
        KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, name, _) => {
            Misconfigured::new(format!("kafka.properties.{name}"), "is no property of librdkafka")
        }
        KafkaError::ClientConfig(_, _, name, _) => {
            let reason = "has a value that librdkafka does not take";
            Misconfigured::new(format!("kafka.properties.{name}"), reason)
        }
        KafkaError::ClientCreation(said)
            if !secrets.into_iter().any(|secret| said.contains(secret)) =>
        {
            Misconfigured::new(
                "kafka.properties",
                format_args!("no client is made of them: {said}"),
            )
        }
        _ => Misconfigured::new("kafka.properties", "no client is made of them"),
    }
}

/// Whether the value of a property can be a secret.
pub(super) fn is_secret(name: &str) -> bool {
    ["password", "secret", "key", "pem", "token", "assertion", "config"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_sink_sets_is_refused_by_name() {
        for (name, _) in OURS.iter().chain(&TAKEN) {
            let properties = BTreeMap::from([((*name).to_owned(), Secret::new("canary"))]);
            let error = check(&properties).unwrap_err();
            assert_eq!(error.path(), format!("kafka.properties.{name}"));
            assert!(!format!("{error:?}").contains("canary"));
        }
        let free = ["compression.type", "linger.ms", "message.max.bytes", "batch.size"];
        let free = free.map(|name| (name.to_owned(), Secret::new("1")));
        assert!(check(&free.into()).is_ok());
    }

    #[test]
    fn a_property_that_is_refused_is_named_without_its_value() {
        let of = |res| {
            let (name, value) = ("ssl.key.password".to_owned(), "canary".to_owned());
            let error = KafkaError::ClientConfig(res, "not canary".to_owned(), name, value);
            let error = refused(&error, []);
            assert!(!format!("{error:?}").contains("canary"));
            error.path().to_owned()
        };
        assert_eq!(of(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN), "kafka.properties.ssl.key.password");
        assert_eq!(of(RDKafkaConfRes::RD_KAFKA_CONF_INVALID), "kafka.properties.ssl.key.password");
        let error = KafkaError::ClientCreation("not canary".to_owned());
        assert!(!format!("{:?}", refused(&error, ["canary"])).contains("canary"));
        assert!(refused(&error, ["other"]).to_string().contains("canary"));
    }
}
