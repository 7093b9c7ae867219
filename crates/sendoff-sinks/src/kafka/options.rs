//! What configures the sink.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rdkafka::ClientConfig;
use serde::Deserialize;

use super::encode::{Encode, KEY, TOPIC};
use super::properties;
use crate::class::Misconfigured;
use crate::envelope::EnvelopeOptions;
use crate::link::LinkOptions;
use crate::secret::Secret;
use crate::template::{KeyOptions, Template};

/// Shorter, and a round trip to a broker that is busy is an outage.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// What is left of a batch's time, at most, when its last record is given up: for its report, and a look at its topic.
const MARGIN: Duration = Duration::from_secs(5);

/// How a password is presented to the brokers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub enum SaslMechanism {
    /// As it is; over TLS, or on a network that nobody listens to.
    #[default]
    #[serde(rename = "plain")]
    Plain,
    /// By a challenge. Needs the feature `kafka-tls`, for its cryptography.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// By a challenge. Needs the feature `kafka-tls`, for its cryptography.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

impl SaslMechanism {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// Who the sink is for the brokers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaAuth {
    /// How the password is presented. Plain.
    #[serde(default)]
    pub mechanism: SaslMechanism,
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// Options of a [`KafkaSink`](super::KafkaSink).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaOptions {
    /// The sink's name, and that of its client at the brokers (`client.id`). `kafka`.
    pub name: String,
    /// Brokers that are asked first, as `host:port`; they name the others. `127.0.0.1:9092`.
    pub brokers: Vec<String>,
    /// Who the sink is. Nobody.
    pub auth: Option<KafkaAuth>,
    /// Whether connections are made over TLS, by which certificates and host names are verified. Needs the feature
    /// `kafka-tls`. No.
    pub tls: bool,
    /// Root certificates (PEM) in place of the system's.
    pub root_certificates: Option<PathBuf>,
    /// The topic of an event, a template. `events`.
    pub topic: String,
    /// The key of an event, by which its partition is chosen. Natural.
    pub key: KeyOptions,
    /// What travels beside the payload. Native.
    pub envelope: EnvelopeOptions,
    /// Properties of the client, by librdkafka's names: `compression.type`, `linger.ms`, `message.max.bytes`. Those that the
    /// sink sets by itself are refused. Values are never shown, because some are secrets.
    pub properties: BTreeMap<String, Secret>,
    /// Deadlines and back-off. A record is given up a fifth of `deliver_within`, and at most 5 s, before that is over;
    /// `deliver_within` is at least 1 s.
    pub link: LinkOptions,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self {
            name: "kafka".to_owned(),
            brokers: vec!["127.0.0.1:9092".to_owned()],
            auth: None,
            tls: false,
            root_certificates: None,
            topic: "events".to_owned(),
            key: KeyOptions::Natural,
            envelope: EnvelopeOptions::default(),
            properties: BTreeMap::new(),
            link: LinkOptions::default(),
        }
    }
}

impl KafkaOptions {
    /// Into this topic, a template.
    pub fn topic(topic: impl Into<String>) -> Self {
        Self { topic: topic.into(), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(ClientConfig, Encode), Misconfigured> {
        self.link.check("kafka.link")?;
        let within = self.link.deliver_within;
        Misconfigured::unless_within("kafka.link.deliver_within", within, SHORTEST, LONGEST)?;
        let config = self.config()?;
        let envelope = self.envelope.check("kafka.envelope")?;
        let wrong = |path| move |error| Misconfigured::new(path, error);
        let topic = Template::parse(&self.topic, &TOPIC).map_err(wrong("kafka.topic"))?;
        let key = self.key.check(&KEY).map_err(wrong("kafka.key"))?;
        Ok((config, Encode { topic, key, envelope }))
    }

    /// What the client is told. That it understands all of it is seen when it is made.
    fn config(&self) -> Result<ClientConfig, Misconfigured> {
        let mut config = ClientConfig::new();
        for (name, value) in properties::DEFAULTS {
            config.set(name, value);
        }
        properties::check(&self.properties)?;
        for (name, value) in &self.properties {
            config.set(name, value.expose());
        }
        let within = self.link.deliver_within;
        let record_within = within - MARGIN.min(within / 5);
        config
            .set("bootstrap.servers", self.addresses()?)
            .set("client.id", text("kafka.name", &self.name)?)
            .set("message.timeout.ms", record_within.as_millis().to_string());
        for (name, value) in properties::OURS {
            config.set(name, value);
        }
        self.secure(&mut config)?;
        Ok(config)
    }

    fn addresses(&self) -> Result<String, Misconfigured> {
        let wrong = |reason| Err(Misconfigured::new("kafka.brokers", reason));
        if self.brokers.is_empty() {
            return wrong("names no broker");
        }
        for broker in &self.brokers {
            // Errors show addresses, so that they have no secrets. A comma would be two of them.
            let is_address = broker.rsplit_once(':').is_some_and(|(host, port)| {
                let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
                !host.is_empty() && host.chars().all(is_host) && port.parse::<u16>().is_ok()
            });
            if !is_address {
                return wrong("has what is no address such as host:9092");
            }
        }
        Ok(self.brokers.join(","))
    }

    fn secure(&self, config: &mut ClientConfig) -> Result<(), Misconfigured> {
        let has_tls = cfg!(feature = "kafka-tls");
        if self.tls && !has_tls {
            let reason = "asks for TLS, which is the feature kafka-tls";
            return Err(Misconfigured::new("kafka.tls", reason));
        }
        if let Some(file) = &self.root_certificates {
            if !self.tls {
                let reason = "is of no use without kafka.tls";
                return Err(Misconfigured::new("kafka.root_certificates", reason));
            }
            let Some(file) = file.to_str() else {
                return Err(Misconfigured::new("kafka.root_certificates", "is not in UTF-8"));
            };
            config.set("ssl.ca.location", text("kafka.root_certificates", file)?);
        }
        if let Some(KafkaAuth { mechanism, user, password }) = &self.auth {
            if *mechanism != SaslMechanism::Plain && !has_tls {
                let reason = "is a mechanism of the feature kafka-tls";
                return Err(Misconfigured::new("kafka.auth.mechanism", reason));
            }
            config
                .set("sasl.mechanism", mechanism.name())
                .set("sasl.username", text("kafka.auth.user", user)?)
                .set("sasl.password", text("kafka.auth.password", password.expose())?);
        }
        let protocol = match (self.tls, self.auth.is_some()) {
            (false, false) => "plaintext",
            (false, true) => "sasl_plaintext",
            (true, false) => "ssl",
            (true, true) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        Ok(())
    }
}

/// What C takes as a text.
fn text<'t>(path: &str, text: &'t str) -> Result<&'t str, Misconfigured> {
    match text {
        "" => Err(Misconfigured::new(path, "is empty")),
        _ if text.contains('\0') => Err(Misconfigured::new(path, "has a NUL")),
        _ => Ok(text),
    }
}
