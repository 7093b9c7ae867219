//! What configures the sink.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::ServerAddr;
use serde::Deserialize;

use super::subject::SUBJECT;
use crate::class::Misconfigured;
use crate::envelope::{Envelope, EnvelopeOptions};
use crate::link::LinkOptions;
use crate::secret::Secret;
use crate::template::Template;

/// The longest wait between two deliveries of an event is a minute and a half by default; with the time that a batch may
/// take it is less than this, which is also what a stream has if nobody says otherwise.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
const LONGEST_WINDOW: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Who the sink is for the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum NatsAuth {
    /// Nobody in particular.
    #[default]
    None,
    /// A user.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// Whoever has this token.
    Token(Secret),
}

/// A stream that is made where it is missing; one that is there is left as it is. It is kept in files, and refuses what is
/// new when it is full, so that nothing is lost that nobody has read; its duplicate window is
/// [`NatsOptions::duplicate_window`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NewStream {
    /// Its subjects, which may have wildcards.
    pub subjects: Vec<String>,
    /// On how many servers of a cluster it is. 1.
    pub replicas: usize,
    /// Bytes at which it is full. None: as many as the server has.
    pub max_bytes: Option<u64>,
    /// How long a message is kept. None: for ever.
    #[serde(with = "sendoff_core::duration::optional")]
    pub max_age: Option<Duration>,
}

impl Default for NewStream {
    fn default() -> Self {
        Self { subjects: Vec::new(), replicas: 1, max_bytes: None, max_age: None }
    }
}

/// Options of a [`NatsSink`](super::NatsSink).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NatsOptions {
    /// The sink's name, and that of its connection at the server. `nats`.
    pub name: String,
    /// Servers of one cluster, any of which is connected to; `tls://` asks for TLS. `nats://127.0.0.1:4222`.
    pub servers: Vec<String>,
    /// Who the sink is. Nobody.
    pub auth: NatsAuth,
    /// Root certificates (PEM) in place of the system's.
    pub root_certificates: Option<PathBuf>,
    /// The domain of JetStream. The server's own.
    pub domain: Option<String>,
    /// The stream, which must be there and cover the subject. No default.
    pub stream: String,
    /// Makes the stream where it is missing. None: a missing one is an error.
    pub create: Option<NewStream>,
    /// The subject of an event, a template. `events.{type}`.
    pub subject: String,
    /// What travels beside the payload. Native.
    pub envelope: EnvelopeOptions,
    /// The shortest duplicate window that the stream should have; one that is shorter is said in the log when the sink
    /// connects. What was in flight when a connection was lost is kept once if it can be delivered again within
    /// the window: make it as long as the longest outage that is to go by without duplicates. 2 min.
    #[serde(with = "sendoff_core::duration")]
    pub duplicate_window: Duration,
    /// Deadlines and back-off.
    pub link: LinkOptions,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            name: "nats".to_owned(),
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            auth: NatsAuth::None,
            root_certificates: None,
            domain: None,
            stream: String::new(),
            create: None,
            subject: "events.{type}".to_owned(),
            envelope: EnvelopeOptions::default(),
            duplicate_window: DUPLICATE_WINDOW,
            link: LinkOptions::default(),
        }
    }
}

/// What the options say, checked.
pub(super) struct Checked {
    pub(super) servers: Vec<ServerAddr>,
    pub(super) subject: Template,
    pub(super) envelope: Envelope,
}

impl NatsOptions {
    /// Into this stream.
    pub fn stream(name: impl Into<String>) -> Self {
        Self { stream: name.into(), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<Checked, Misconfigured> {
        if self.servers.is_empty() {
            return Err(Misconfigured::new("nats.servers", "names no server"));
        }
        let servers = self.servers.iter().map(|server| address(server));
        let servers = servers.collect::<Result<_, _>>()?;
        is_name("nats.stream", &self.stream)?;
        if let Some(domain) = &self.domain {
            is_name("nats.domain", domain)?;
        }
        if let Some(new) = &self.create {
            if new.subjects.is_empty() {
                return Err(Misconfigured::new("nats.create.subjects", "names no subject"));
            }
            Misconfigured::unless_from_to("nats.create.replicas", new.replicas as u64, 1, 5)?;
            let most = i64::MAX.unsigned_abs();
            Misconfigured::unless_from_to(
                "nats.create.max_bytes",
                new.max_bytes.unwrap_or(1),
                1,
                most,
            )?;
        }
        Misconfigured::unless_within(
            "nats.duplicate_window",
            self.duplicate_window,
            Duration::from_millis(100),
            LONGEST_WINDOW,
        )?;
        self.link.check("nats.link")?;
        let envelope = self.envelope.check("nats.envelope")?;
        let wrong = |error| Misconfigured::new("nats.subject", error);
        let subject = Template::parse(&self.subject, &SUBJECT).map_err(wrong)?;
        Ok(Checked { servers, subject, envelope })
    }
}

/// The client would not say who it is by what is in an address, and errors show addresses.
fn address(server: &str) -> Result<ServerAddr, Misconfigured> {
    let wrong = |reason| Misconfigured::new("nats.servers", reason);
    let address: ServerAddr =
        server.parse().map_err(|_| wrong("has what is no address such as nats://host:4222"))?;
    match (address.scheme(), address.has_user_pass()) {
        ("nats" | "tls", false) => Ok(address),
        (_, true) => Err(wrong("has a user in an address; they belong into nats.auth")),
        _ => Err(wrong("has an address of another scheme than nats:// and tls://")),
    }
}

/// What may stand in a subject of the server's API as one token.
fn is_name(path: &str, name: &str) -> Result<(), Misconfigured> {
    let is = |c: char| !c.is_whitespace() && !c.is_control() && !".*>/\\".contains(c);
    match name.len() {
        0 => Err(Misconfigured::new(path, "is empty")),
        1..=255 if name.chars().all(is) => Ok(()),
        1..=255 => Err(Misconfigured::new(path, "has a blank or one of . * > / \\")),
        bytes => Err(Misconfigured::new(path, format_args!("has {bytes} bytes; the most is 255"))),
    }
}
