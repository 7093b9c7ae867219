//! What configures the sink.

use std::path::PathBuf;

use lapin::uri::{AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use serde::Deserialize;

use super::encode::{EXCHANGE, Encode, ROUTING_KEY};
use crate::class::Misconfigured;
use crate::envelope::EnvelopeOptions;
use crate::link::LinkOptions;
use crate::secret::Secret;
use crate::template::Template;

/// How often either side says that it is there, in seconds. Who is silent for twice as long is gone.
const HEARTBEAT: u16 = 10;
/// Channels that a server takes on one connection unless it is told otherwise; each batch in flight has one.
const CHANNELS: u64 = 2_047;

/// Who the sink is for the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RabbitmqAuth {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// Options of a [`RabbitmqSink`](super::RabbitmqSink).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RabbitmqOptions {
    /// The sink's name, and that of its connection at the server. `rabbitmq`.
    pub name: String,
    /// The server: `amqp://host:5672`. With feature `rabbitmq-tls` also `amqps://`. `amqp://127.0.0.1:5672`.
    pub server: String,
    /// The virtual host. `/`.
    pub vhost: String,
    /// Who the sink is. The user `guest`, whom servers know on their own host alone.
    pub auth: Option<RabbitmqAuth>,
    /// Root certificates (PEM) beside the system's.
    pub root_certificates: Option<PathBuf>,
    /// The exchange of an event, a template. Empty: the server's own, for which a routing key is the name of a queue.
    /// `events`.
    pub exchange: String,
    /// The routing key of an event, a template. `{type}`.
    pub routing_key: String,
    /// Whether an event that no queue takes is not done. Without it, RabbitMQ confirms such an event and drops it. On.
    pub mandatory: bool,
    /// What travels beside the payload. Native.
    pub envelope: EnvelopeOptions,
    /// Deadlines and back-off. Each batch in flight has a channel.
    pub link: LinkOptions,
}

impl Default for RabbitmqOptions {
    fn default() -> Self {
        Self {
            name: "rabbitmq".to_owned(),
            server: "amqp://127.0.0.1:5672".to_owned(),
            vhost: "/".to_owned(),
            auth: None,
            root_certificates: None,
            exchange: "events".to_owned(),
            routing_key: "{type}".to_owned(),
            mandatory: true,
            envelope: EnvelopeOptions::default(),
            link: LinkOptions::default(),
        }
    }
}

impl RabbitmqOptions {
    /// To an exchange of this server.
    pub fn server(server: impl Into<String>) -> Self {
        Self { server: server.into(), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(AMQPUri, Encode), Misconfigured> {
        let server = self.address()?;
        if self.root_certificates.is_some() && server.scheme != AMQPScheme::AMQPS {
            let reason = "is of no use without amqps://";
            return Err(Misconfigured::new("rabbitmq.root_certificates", reason));
        }
        self.link.check("rabbitmq.link")?;
        let channels = self.link.batches_in_flight as u64;
        Misconfigured::unless_from_to("rabbitmq.link.batches_in_flight", channels, 1, CHANNELS)?;
        let envelope = self.envelope.check("rabbitmq.envelope")?;
        let wrong = |path| move |error| Misconfigured::new(path, error);
        let exchange =
            Template::parse(&self.exchange, &EXCHANGE).map_err(wrong("rabbitmq.exchange"))?;
        let routing_key = Template::parse(&self.routing_key, &ROUTING_KEY)
            .map_err(wrong("rabbitmq.routing_key"))?;
        Ok((server, Encode { exchange, routing_key, envelope }))
    }

    /// Errors show addresses, so that they have no secrets.
    fn address(&self) -> Result<AMQPUri, Misconfigured> {
        let wrong = |reason| Misconfigured::new("rabbitmq.server", reason);
        let (scheme, rest) = self
            .server
            .split_once("://")
            .ok_or_else(|| wrong("is no address such as amqp://host:5672"))?;
        if rest.contains('@') {
            return Err(wrong("has a user or a password; they belong into rabbitmq.auth"));
        }
        if rest.trim_end_matches('/').contains(['/', '?', '#']) {
            return Err(wrong("has more than a host and a port; there is rabbitmq.vhost"));
        }
        if !["amqp", "amqps"].contains(&scheme) {
            return Err(wrong("has another scheme than amqp:// and amqps://"));
        }
        let address = format!("{scheme}://{}", rest.trim_end_matches('/'));
        let mut uri: AMQPUri =
            address.parse().map_err(|_| wrong("is no address such as amqp://host:5672"))?;
        if uri.scheme == AMQPScheme::AMQPS && !cfg!(feature = "rabbitmq-tls") {
            return Err(wrong("asks for TLS, which is the feature rabbitmq-tls"));
        }
        if self.vhost.len() > EXCHANGE.bytes {
            let reason = format_args!("has {} bytes; the most is 255", self.vhost.len());
            return Err(Misconfigured::new("rabbitmq.vhost", reason));
        }
        uri.vhost.clone_from(&self.vhost);
        uri.query = AMQPQueryString { heartbeat: Some(HEARTBEAT), ..AMQPQueryString::default() };
        if let Some(RabbitmqAuth { user, password }) = &self.auth {
            let password = password.expose().to_owned();
            uri.authority.userinfo = AMQPUserInfo { username: user.clone(), password };
        }
        Ok(uri)
    }
}
