//! What configures the sink.

use std::path::PathBuf;

use serde::Deserialize;

use super::encode::{Encode, TOPIC};
use crate::class::Misconfigured;
use crate::envelope::EnvelopeOptions;
use crate::link::LinkOptions;
use crate::secret::Secret;
use crate::template::Template;

/// Where brokers listen, without TLS and with it.
const PORTS: (u16, u16) = (1883, 8883);
/// What every broker takes as a client's id; most take more.
const CLIENT_ID_BYTES: usize = 65_535;

/// Who the sink is for the broker.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MqttAuth {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// Options of a [`MqttSink`](super::MqttSink).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MqttOptions {
    /// The sink's name. `mqtt`.
    pub name: String,
    /// The broker: `mqtt://host:1883`. With feature `mqtt-tls` also `mqtts://host:8883`. `mqtt://127.0.0.1:1883`.
    pub server: String,
    /// Who the sink is. Nobody.
    pub auth: Option<MqttAuth>,
    /// Root certificates (PEM) in place of the system's.
    pub root_certificates: Option<PathBuf>,
    /// The client's id at the broker, which ends the connection of another client with the same one: each process needs its
    /// own. None: `sendoff` and a random number.
    pub client_id: Option<String>,
    /// The topic of an event, a template. `events/{type}`.
    pub topic: String,
    /// Whether the broker keeps the last event of each topic for whoever subscribes to it later. Off.
    pub retain: bool,
    /// What travels beside the payload. Native.
    pub envelope: EnvelopeOptions,
    /// Deadlines and back-off.
    pub link: LinkOptions,
}

impl Default for MqttOptions {
    fn default() -> Self {
        Self {
            name: "mqtt".to_owned(),
            server: "mqtt://127.0.0.1:1883".to_owned(),
            auth: None,
            root_certificates: None,
            client_id: None,
            topic: "events/{type}".to_owned(),
            retain: false,
            envelope: EnvelopeOptions::default(),
            link: LinkOptions::default(),
        }
    }
}

/// Where a broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_tls: bool,
}

impl MqttOptions {
    /// To topics of this broker.
    pub fn server(server: impl Into<String>) -> Self {
        Self { server: server.into(), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(Address, Encode), Misconfigured> {
        let address = self.address()?;
        if let Some(id) = &self.client_id {
            let path = "mqtt.client_id";
            Misconfigured::unless_from_to(path, id.len() as u64, 1, CLIENT_ID_BYTES as u64)?;
            if id.chars().any(char::is_control) {
                return Err(Misconfigured::new(path, "has a control character"));
            }
        }
        if self.root_certificates.is_some() && !address.is_tls {
            let reason = "is of no use without mqtts://";
            return Err(Misconfigured::new("mqtt.root_certificates", reason));
        }
        self.link.check("mqtt.link")?;
        let envelope = self.envelope.check("mqtt.envelope")?;
        let wrong = |error| Misconfigured::new("mqtt.topic", error);
        let topic = Template::parse(&self.topic, &TOPIC).map_err(wrong)?;
        Ok((address, Encode { topic, retain: self.retain, envelope }))
    }

    /// Errors show addresses, so that they have no secrets.
    fn address(&self) -> Result<Address, Misconfigured> {
        let wrong = |reason| Misconfigured::new("mqtt.server", reason);
        let no_address = || wrong("is no address such as mqtt://host:1883");
        let (scheme, rest) = self.server.split_once("://").ok_or_else(no_address)?;
        let is_tls = match scheme {
            "mqtt" => false,
            "mqtts" if cfg!(feature = "mqtt-tls") => true,
            "mqtts" => return Err(wrong("asks for TLS, which is the feature mqtt-tls")),
            _ => return Err(wrong("has another scheme than mqtt:// and mqtts://")),
        };
        if rest.contains('@') {
            return Err(wrong("has a user or a password; they belong into mqtt.auth"));
        }
        let rest = rest.trim_end_matches('/');
        // An address of IPv6 has its colons in brackets.
        let (host, port) = match rest.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| no_address())?),
            None => (rest, if is_tls { PORTS.1 } else { PORTS.0 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(no_address());
        }
        Ok(Address { host: host.to_owned(), port, is_tls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let of = |server: &str| {
            let address = MqttOptions::server(server).address().ok()?;
            Some((address.host, address.port))
        };
        let found = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(of("mqtt://host"), found("host", 1883));
        assert_eq!(of("mqtt://host:1/"), found("host", 1));
        assert_eq!(of("mqtt://[::1]"), found("::1", 1883));
        assert_eq!(of("mqtt://[::1]:2"), found("::1", 2));
        for wrong in ["mqtt://", "mqtt://a/b", "mqtt://a:b", "mqtt://a:65536", "mqtt:a"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
