//! Producers, and what they know of topics.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{FutureProducer, Producer, PurgeConfig};
use rdkafka::{ClientConfig, Statistics};
use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::{OnceCell, oneshot, watch};
use tokio::task::spawn_blocking;
use tracing::debug;

use super::answer::{fatal, is_about_auth};
use super::properties;
use crate::class::{Misconfigured, Trouble};
use crate::link::{Connect, LinkOptions};

/// Topics that a producer remembers. Where names are made of what is different for each event, it begins anew.
const TOPICS: usize = 10_000;
/// How long topics are asked about that are not there: brokers that make them say so at first.
const CREATED_WITHIN: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// For how long a topic that is not there is not asked about again.
const MISSING_FOR: Duration = Duration::from_secs(5);

pub(super) type Client = FutureProducer<Told>;

/// A producer, which is ended where that may block.
struct Ended(Option<Client>);

impl Drop for Ended {
    fn drop(&mut self) {
        let client = self.0.take();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(client))),
            Err(_) => drop(client),
        }
    }
}

/// A producer, and what it has learnt.
pub(super) struct Conn {
    client: Ended,
    /// One that sends each record in a request of its own, since there was need of it.
    alone: OnceCell<Ended>,
    config: ClientConfig,
    refused: watch::Receiver<bool>,
    topics: Mutex<HashMap<String, Standing>>,
}

/// What is known of a topic.
#[derive(Debug, Clone, Copy)]
enum Standing {
    There,
    Missing { since: Instant },
}

/// What brokers say of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    There,
    Missing,
    NotAllowed,
    Invalid,
}

impl Conn {
    pub(super) fn client(&self) -> &Client {
        self.client.0.as_ref().expect("it is taken by its drop alone")
    }

    /// The producer for what has to be sent alone.
    pub(super) async fn alone(&self) -> Result<&Client, Trouble> {
        let make = || async {
            let mut config = self.config.clone();
            config.set("batch.num.messages", "1");
            let (told, _) = Told::new();
            let made = blocking(move || config.create_with_context(told)).await?;
            // Of the same properties a producer was made before.
            let client = made.map_err(|_: KafkaError| Trouble::unavailable(NoSecond))?;
            Ok::<_, Trouble>(Ended(Some(client)))
        };
        let alone = self.alone.get_or_try_init(make).await?;
        Ok(alone.0.as_ref().expect("it is taken by its drop alone"))
    }

    /// Comes back when a broker has refused who the sink is.
    pub(super) async fn refused(&self) -> Misconfigured {
        refused(self.refused.clone()).await
    }

    /// Why it is of no use any more, where it is not.
    pub(super) fn fatal(&self) -> Option<Trouble> {
        self.client().client().fatal_error().map(|(code, _)| fatal(code))
    }

    /// What is known of a topic, unless it has to be asked about.
    pub(super) fn known(&self, topic: &str) -> Option<Topic> {
        match self.topics().get(topic)? {
            Standing::There => Some(Topic::There),
            Standing::Missing { since } if since.elapsed() < MISSING_FOR => Some(Topic::Missing),
            Standing::Missing { .. } => None,
        }
    }

    /// Asks the brokers about each of these, one after the other. What there is no time for within `within` has no answer:
    /// the next one who asks needs not ask about the others again.
    pub(super) async fn ask(
        &self,
        topics: HashSet<String>,
        within: Duration,
    ) -> Result<HashMap<String, Topic>, Trouble> {
        let client = self.client().clone();
        // What was missing before is not waited for.
        let is_new = |topic: &String| !self.topics().contains_key(topic);
        let patience = if topics.iter().any(is_new) { CREATED_WITHIN } else { Duration::ZERO };
        let found = blocking(move || look(&client, topics, patience, within)).await??;
        for (topic, found) in &found {
            self.learn(topic.clone(), *found);
        }
        Ok(found)
    }

    fn learn(&self, topic: String, found: Topic) {
        let mut topics = self.topics();
        if topics.len() >= TOPICS {
            topics.clear();
        }
        match found {
            Topic::There => topics.insert(topic, Standing::There),
            Topic::Missing => topics.insert(topic, Standing::Missing { since: Instant::now() }),
            Topic::NotAllowed | Topic::Invalid => topics.remove(&topic),
        };
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<String, Standing>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks about topics, and again about those that are not there, for so long. The last question may take its own time.
fn look(
    client: &Client,
    mut topics: HashSet<String>,
    patience: Duration,
    within: Duration,
) -> Result<HashMap<String, Topic>, Trouble> {
    let (mut found, begun) = (HashMap::with_capacity(topics.len()), Instant::now());
    loop {
        for topic in &topics {
            if begun.elapsed() >= within {
                return Ok(found);
            }
            found.insert(topic.clone(), look_at(client, topic, within)?);
        }
        topics.retain(|topic| found.get(topic) == Some(&Topic::Missing));
        if topics.is_empty() || begun.elapsed() >= patience {
            return Ok(found);
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

fn look_at(client: &Client, topic: &str, within: Duration) -> Result<Topic, Trouble> {
    let metadata = client.client().fetch_metadata(Some(topic), within);
    let metadata = metadata.map_err(Trouble::unavailable)?;
    let error = metadata.topics().first().and_then(|topic| topic.error()).map(Code::from);
    Ok(match error {
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => Topic::Missing,
        Some(Code::TopicAuthorizationFailed) => Topic::NotAllowed,
        Some(Code::InvalidTopic) => Topic::Invalid,
        // Its leader, and whatever else there may be, is found by the producer.
        _ => Topic::There,
    })
}

/// Runs what blocks, on a thread of its own: a runtime that ends waits for those that it has for this, and brokers may take
/// long to answer.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Trouble> {
    let (told, answer) = oneshot::channel();
    let asked = std::thread::Builder::new().name("sendoff-kafka".to_owned());
    asked.spawn(move || drop(told.send(work()))).map_err(Trouble::unavailable)?;
    answer.await.map_err(Trouble::unavailable)
}

async fn refused(mut refused: watch::Receiver<bool>) -> Misconfigured {
    if refused.wait_for(|refused| *refused).await.is_err() {
        // The producer ended, which others see.
        std::future::pending::<()>().await;
    }
    Misconfigured::new("kafka.auth", "the brokers refuse it")
}

/// What the client tells to nobody in particular.
pub(super) struct Told {
    refused: watch::Sender<bool>,
}

impl Told {
    fn new() -> (Self, watch::Receiver<bool>) {
        let (refused, receiver) = watch::channel(false);
        (Self { refused }, receiver)
    }
}

impl ClientContext for Told {
    /// The sink has its own lines for whatever goes wrong.
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        debug!(facility, message, "librdkafka");
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        debug!(%error, reason, "librdkafka");
        if is_about_auth(&error) {
            self.refused.send_replace(true);
        }
    }
}

/// Makes producers.
pub(super) struct Open {
    pub(super) config: ClientConfig,
    /// Values that no error may tell.
    pub(super) secrets: Vec<String>,
    /// The topic, where it is the same for all events.
    pub(super) topic: Option<String>,
    pub(super) bounds: LinkOptions,
}

impl Open {
    fn make(&self, told: Told) -> Result<Client, Misconfigured> {
        let made = self.config.create_with_context(told);
        let secrets = self.secrets.iter().map(String::as_str);
        made.map_err(|error| properties::refused(&error, secrets))
    }
}

#[async_trait]
impl Connect for Open {
    type Conn = Conn;

    async fn open(&self) -> Result<Conn, Trouble> {
        let (told, is_refused) = Told::new();
        let conn = Conn {
            client: Ended(Some(self.make(told)?)),
            alone: OnceCell::new(),
            config: self.config.clone(),
            refused: is_refused,
            topics: Mutex::default(),
        };
        let within = self.bounds.connect_within;
        let look = async {
            match &self.topic {
                Some(topic) => {
                    let found = conn.ask(HashSet::from([topic.clone()]), within).await?;
                    match found.get(topic) {
                        Some(Topic::There) | None => Ok(()),
                        Some(wrong) => Err(missing(*wrong).into()),
                    }
                }
                None => {
                    let client = conn.client().clone();
                    let id = move || client.client().fetch_cluster_id(within);
                    blocking(id).await?.map(drop).ok_or_else(|| Trouble::unavailable(Unanswered))
                }
            }
        };
        select! {
            looked = look => looked?,
            wrong = conn.refused() => return Err(wrong.into()),
        }
        Ok(conn)
    }

    fn is_open(&self, conn: &Conn) -> bool {
        conn.fatal().is_none()
    }

    async fn close(&self, conn: Arc<Conn>) {
        let (client, within) = (conn.client().clone(), self.bounds.close_within);
        // What a delivery that was dropped has left there.
        let flushed = spawn_blocking(move || {
            let _ = client.flush(within);
            drop(client);
            // The other producer is used by one record after the other, which are awaited.
        });
        let _ = flushed.await;
    }

    /// Whoever else waits for it learns at once that nothing is known.
    fn discard(&self, conn: Arc<Conn>) {
        drop(spawn_blocking(move || {
            let alone = conn.alone.get().and_then(|alone| alone.0.as_ref());
            for client in [Some(conn.client()), alone].into_iter().flatten() {
                client.purge(PurgeConfig::default().queue().inflight());
            }
        }));
    }
}

/// Why a topic cannot be written to.
pub(super) fn missing(found: Topic) -> Misconfigured {
    match found {
        Topic::NotAllowed => {
            Misconfigured::new("kafka.auth", "has no permission to write to the topic")
        }
        Topic::Invalid => Misconfigured::new("kafka.topic", "is no name that the brokers take"),
        Topic::There | Topic::Missing => {
            Misconfigured::new("kafka.topic", "there is no such topic")
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no broker answers")]
struct Unanswered;

#[derive(Debug, thiserror::Error)]
#[error("no producer is made for what has to be sent alone")]
struct NoSecond;
