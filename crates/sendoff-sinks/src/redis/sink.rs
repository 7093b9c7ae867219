//! The sink.

use std::sync::Arc;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, RedisResult, Value};
use sendoff_core::{Delivery, Sink, Verdict};

use super::answer::{Follows, TooFew, follows, trouble};
use super::encode::Encode;
use super::options::{RedisOptions, RedisWait};
use crate::class::{Class, Misconfigured, Trouble};
use crate::link::{Connect, Link, LinkOptions, Slate};

/// Entries that are added by one pipeline.
const WINDOW: usize = 1_000;

/// Adds each event to a stream. Cheap to clone; clones are the same, with one connection.
///
/// ```no_run
/// use sendoff_sinks::redis::{RedisOptions, RedisSink};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sink = RedisSink::start(RedisOptions {
///     stream: "shop.{type}".to_owned(),
///     max_entries: Some(1_000_000),
///     ..RedisOptions::server("redis://redis.example")
/// })
/// .await?;
/// // …given to an outbox, a relay, a topic worker or a publisher…
/// sink.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisSink {
    name: String,
    encode: Arc<Encode>,
    wait: Option<RedisWait>,
    link: Link<Open>,
}

impl RedisSink {
    /// Checks the options, connects, and looks whether the key of a stream that is the same for all events holds one. A
    /// server that cannot be reached is waited for.
    ///
    /// # Errors
    ///
    /// An option is wrong, such as a password; it is named by its path.
    pub async fn start(options: RedisOptions) -> Result<Self, Misconfigured> {
        let (server, encode) = options.check()?;
        let RedisOptions { name, wait, link: bounds, .. } = options;
        let open = Open { server, stream: encode.stream.constant(), bounds };
        let link = Link::start(name.clone(), open, bounds).await?;
        Ok(Self { name, encode: Arc::new(encode), wait, link })
    }

    /// Takes no more events, and ends the connection when those under way are answered. Answers whether they were, within
    /// [`LinkOptions::close_within`].
    pub async fn close(&self) -> bool {
        self.link.close().await
    }

    /// Adds all of them in order, and settles each by its own answer.
    async fn add(
        &self,
        mut conn: MultiplexedConnection,
        events: Vec<(usize, Cmd)>,
        slate: &Slate,
    ) -> Result<(), Trouble> {
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            let mut pipe = redis::pipe();
            let mut places = Vec::new();
            for (at, add) in events.by_ref().take(WINDOW) {
                places.push(at);
                pipe.add_command(add);
            }
            if let Some(RedisWait { replicas, within }) = &self.wait {
                let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
                pipe.cmd("WAIT").arg(*replicas).arg(millis);
            }
            let answers: RedisResult<Vec<RedisResult<Value>>> =
                pipe.ignore_errors().query_async(&mut conn).await;
            let mut answers = answers.map_err(trouble)?;
            let too_few = self.too_few(&mut answers)?;
            let mut lost = Ok(());
            for (at, answer) in places.into_iter().zip(answers) {
                match (answer.map_err(follows), &too_few) {
                    (Ok(_), None) => slate.done(at),
                    (Ok(_), &Some((had, wanted))) => {
                        let too_few = TooFew { had, wanted };
                        slate.settle(at, Err(self.link.failure(Class::Unavailable, too_few)));
                    }
                    (Err(Follows::Event(class, error)), _) => {
                        slate.settle(at, Err(self.link.failure(class, error)));
                    }
                    (Err(Follows::Reopen(trouble)), _) => lost = Err(trouble),
                }
            }
            lost?;
        }
        Ok(())
    }

    /// How many replicas have what was added, and how many should, where that is too few.
    fn too_few(
        &self,
        answers: &mut Vec<RedisResult<Value>>,
    ) -> Result<Option<(u64, u32)>, Trouble> {
        let Some(RedisWait { replicas, .. }) = self.wait else { return Ok(None) };
        match answers.pop() {
            Some(Ok(Value::Int(had))) => {
                let had = u64::try_from(had).unwrap_or_default();
                Ok((had < u64::from(replicas)).then_some((had, replicas)))
            }
            Some(Err(error)) => Err(trouble(error)),
            _ => Ok(Some((0, replicas))),
        }
    }
}

#[async_trait]
impl Sink for RedisSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let (slate, events) = Slate::encoded(deliveries, |delivery| self.encode.command(delivery));
        let verdicts = &slate;
        let add = |conn: Arc<MultiplexedConnection>, events| async move {
            self.add((*conn).clone(), events, verdicts).await
        };
        self.link.carry_all(&slate, deliveries, events, add).await;
        slate.verdicts()
    }

    fn is_healthy(&self) -> bool {
        self.link.is_healthy()
    }

    fn identity(&self) -> Option<usize> {
        Some(self.link.identity())
    }
}

impl std::fmt::Debug for RedisSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisSink").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Opens connections.
struct Open {
    server: ConnectionInfo,
    /// The stream, where it is the same for all events.
    stream: Option<String>,
    bounds: LinkOptions,
}

#[async_trait]
impl Connect for Open {
    type Conn = MultiplexedConnection;

    async fn open(&self) -> Result<MultiplexedConnection, Trouble> {
        let client = Client::open(self.server.clone()).map_err(trouble)?;
        // Time is kept by the link.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.bounds.connect_within))
            .set_response_timeout(None);
        let conn = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut conn = conn.map_err(trouble)?;
        let Some(stream) = &self.stream else {
            // Who may do nothing is told by the first command.
            redis::cmd("PING").exec_async(&mut conn).await.map_err(trouble)?;
            return Ok(conn);
        };
        let kind: RedisResult<String> = redis::cmd("TYPE").arg(stream).query_async(&mut conn).await;
        match kind {
            Ok(kind) if ["none", "stream"].contains(&&*kind) => Ok(conn),
            Ok(kind) => {
                let reason = format_args!("is a key that holds a {kind}");
                Err(Misconfigured::new("redis.stream", reason).into())
            }
            // A user who may only add cannot look.
            Err(error) if error.code() == Some("NOPERM") => Ok(conn),
            Err(error) => Err(trouble(error)),
        }
    }
}
