//! What configures the sink.

use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo};
use serde::Deserialize;

use super::encode::{Encode, STREAM};
use crate::class::Misconfigured;
use crate::envelope::EnvelopeOptions;
use crate::link::LinkOptions;
use crate::secret::Secret;
use crate::template::Template;

/// Who the sink is for the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisAuth {
    /// The user. None: the default one.
    #[serde(default)]
    pub user: Option<String>,
    /// The password.
    pub password: Secret,
}

/// What of a server's replicas an event waits for (`WAIT`). While one batch waits, the others of the sink do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisWait {
    /// How many replicas must have it.
    pub replicas: u32,
    /// For how long at most; then the event is unavailable, and added again. Shorter than `link.deliver_within`.
    #[serde(with = "sendoff_core::duration")]
    pub within: Duration,
}

/// Options of a [`RedisSink`](super::RedisSink).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisOptions {
    /// The sink's name. `redis`.
    pub name: String,
    /// The server, and its database: `redis://host:6379/0`. With feature `redis-tls` also `rediss://`.
    /// `redis://127.0.0.1:6379`.
    pub server: String,
    /// Who the sink is. Nobody.
    pub auth: Option<RedisAuth>,
    /// The key of the stream of an event, a template. `events`.
    pub stream: String,
    /// Entries that a stream keeps, about (`MAXLEN ~`): what is older goes, whether somebody has read it or not. None: all.
    pub max_entries: Option<u64>,
    /// Waits for replicas. None: the server alone has it.
    pub wait: Option<RedisWait>,
    /// What travels beside the payload. Native.
    pub envelope: EnvelopeOptions,
    /// Deadlines and back-off.
    pub link: LinkOptions,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            name: "redis".to_owned(),
            server: "redis://127.0.0.1:6379".to_owned(),
            auth: None,
            stream: "events".to_owned(),
            max_entries: None,
            wait: None,
            envelope: EnvelopeOptions::default(),
            link: LinkOptions::default(),
        }
    }
}

impl RedisOptions {
    /// Into streams of this server.
    pub fn server(server: impl Into<String>) -> Self {
        Self { server: server.into(), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(ConnectionInfo, Encode), Misconfigured> {
        let server = self.address()?;
        if let Some(RedisWait { replicas, within }) = &self.wait {
            Misconfigured::unless_from_to("redis.wait.replicas", u64::from(*replicas), 1, 1_000)?;
            // Zero would be for ever.
            let least = Duration::from_millis(1);
            let most = self.link.deliver_within;
            Misconfigured::unless_within("redis.wait.within", *within, least, most)?;
        }
        let entries = self.max_entries.unwrap_or(1);
        Misconfigured::unless_from_to("redis.max_entries", entries, 1, i64::MAX.unsigned_abs())?;
        self.link.check("redis.link")?;
        let envelope = self.envelope.check("redis.envelope")?;
        let wrong = |error| Misconfigured::new("redis.stream", error);
        let stream = Template::parse(&self.stream, &STREAM).map_err(wrong)?;
        Ok((server, Encode { stream, envelope, max_entries: self.max_entries }))
    }

    /// Errors show addresses, so that they have no secrets.
    fn address(&self) -> Result<ConnectionInfo, Misconfigured> {
        let wrong = |reason| Misconfigured::new("redis.server", reason);
        let info = self.server.as_str().into_connection_info();
        let info = info.map_err(|_| wrong("is no address such as redis://host:6379/0"))?;
        if !info.addr().is_supported() {
            return Err(wrong("asks for TLS, which is the feature redis-tls"));
        }
        let known = info.redis_settings().clone();
        if known.username().is_some() || known.password().is_some() {
            return Err(wrong("has a user or a password; they belong into redis.auth"));
        }
        let Some(RedisAuth { user, password }) = &self.auth else { return Ok(info) };
        let known = match user {
            Some(user) => known.set_username(user),
            None => known,
        };
        Ok(info.set_redis_settings(known.set_password(password.expose())))
    }
}
