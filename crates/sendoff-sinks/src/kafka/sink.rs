//! The sink.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::DeliveryFuture;
use sendoff_core::{Delivery, Sink, Verdict};
use tokio::select;
use tokio::time::sleep;

use super::answer::{Company, Follows, Refusal};
use super::connect::{Client, Conn, Open, Topic, missing};
use super::encode::{Encode, Outgoing};
use super::options::KafkaOptions;
use super::properties;
use crate::class::{Class, Misconfigured, Trouble};
use crate::link::{Link, LinkOptions, Slate};

/// How long to wait where the client holds as much as it may (`queue.buffering.max.messages`).
const FULL_FOR: Duration = Duration::from_millis(5);

/// Writes each event to a topic of Kafka. Cheap to clone; clones are the same, with one producer.
///
/// ```no_run
/// use sendoff_sinks::kafka::{KafkaOptions, KafkaSink};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sink = KafkaSink::start(KafkaOptions {
///     brokers: vec!["kafka-1.example:9092".to_owned(), "kafka-2.example:9092".to_owned()],
///     properties: [("compression.type".to_owned(), "lz4".into())].into(),
///     ..KafkaOptions::topic("shop.{type}")
/// })
/// .await?;
/// // …given to an outbox, a relay, a topic worker or a publisher…
/// sink.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KafkaSink {
    name: String,
    encode: Arc<Encode>,
    bounds: LinkOptions,
    link: Link<Open>,
}

/// Records of one batch that have no verdict yet, each with its place.
type Records = Vec<(usize, Outgoing)>;

impl KafkaSink {
    /// Checks the options, connects, and looks whether a topic that is the same for all events is there. Brokers that cannot
    /// be reached are waited for.
    ///
    /// # Errors
    ///
    /// An option is wrong, such as a password, or a topic that is not there; it is named by its path.
    pub async fn start(options: KafkaOptions) -> Result<Self, Misconfigured> {
        let (config, encode) = options.check()?;
        let KafkaOptions { name, auth, properties, link: bounds, .. } = options;
        let secrets = properties.iter().filter(|(name, _)| properties::is_secret(name));
        let secrets = secrets.map(|(_, value)| value.expose().to_owned());
        let password = auth.map(|auth| auth.password.expose().to_owned());
        let secrets = secrets.chain(password).collect();
        let open = Open { config, secrets, topic: encode.topic.constant(), bounds };
        let link = Link::start(name.clone(), open, bounds).await?;
        Ok(Self { name, encode: Arc::new(encode), bounds, link })
    }

    /// Takes no more events, waits for the reports of those under way, and flushes. Answers whether it came to its end
    /// within [`LinkOptions::close_within`].
    pub async fn close(&self) -> bool {
        self.link.close().await
    }

    /// Sends all of them in order, and settles each by its own report.
    async fn produce(&self, conn: &Conn, events: Records, slate: &Slate) -> Result<(), Trouble> {
        let events = self.to_topics_that_are_there(conn, events, slate).await?;
        let left = self.send(conn, conn.client(), events, Company::Others, slate).await?;
        for record in left {
            // Awaited one by one, each is a request of its own.
            let client = conn.alone().await?;
            self.send(conn, client, vec![record], Company::None, slate).await?;
        }
        Ok(())
    }

    /// Settles those whose topic is not there. A record to such a topic would wait for its whole time.
    async fn to_topics_that_are_there(
        &self,
        conn: &Conn,
        events: Records,
        slate: &Slate,
    ) -> Result<Records, Trouble> {
        let (mut topics, mut unknown) = (HashMap::new(), HashSet::new());
        for topic in events.iter().map(|(_, record)| &*record.topic).collect::<HashSet<_>>() {
            if let Some(known) = conn.known(topic) {
                topics.insert(topic.to_owned(), known);
            } else {
                unknown.insert(topic.to_owned());
            }
        }
        if !unknown.is_empty() {
            let LinkOptions { connect_within, deliver_within, .. } = self.bounds;
            topics.extend(conn.ask(unknown, connect_within.min(deliver_within / 3)).await?);
        }
        let mut there = Vec::with_capacity(events.len());
        for (at, record) in events {
            match topics.get(&record.topic) {
                Some(Topic::There) => there.push((at, record)),
                None => slate.settle(at, Err(self.link.failure(Class::Unavailable, NotAsked))),
                Some(wrong) => self.settle_by_topic(at, *wrong, slate),
            }
        }
        Ok(there)
    }

    /// Sends all of them and awaits their reports. Answers with those that have to be sent again alone.
    async fn send(
        &self,
        conn: &Conn,
        client: &Client,
        events: Records,
        company: Company,
        slate: &Slate,
    ) -> Result<Records, Trouble> {
        let mut sent = Vec::with_capacity(events.len());
        for (at, record) in events {
            let report = enqueue(client, &record).await;
            sent.push((at, record, report));
        }
        let reported = self.reported(conn, sent, company, slate);
        select! {
            reported = reported => reported,
            wrong = conn.refused() => Err(wrong.into()),
        }
    }

    async fn reported(
        &self,
        conn: &Conn,
        sent: Vec<(usize, Outgoing, Result<DeliveryFuture, Refusal>)>,
        company: Company,
        slate: &Slate,
    ) -> Result<Records, Trouble> {
        let (mut alone, mut unclear) = (Vec::new(), Vec::new());
        let mut lost_because = None;
        for (at, record, report) in sent {
            let (refusal, company) = match report {
                Ok(report) => match report.await {
                    Ok(Ok(_)) => {
                        slate.done(at);
                        continue;
                    }
                    Ok(Err((error, _))) => (error.into(), company),
                    Err(_) => (Refusal::Lost, company),
                },
                // The client itself has found that this very one cannot be sent.
                Err(refusal) => (refusal, Company::None),
            };
            match refusal.follows(company) {
                Follows::Event(class) => slate.settle(at, Err(self.link.failure(class, refusal))),
                Follows::Wrong(path, reason) => {
                    self.wrong(at, Misconfigured::new(path, reason), slate);
                }
                Follows::Alone => alone.push((at, record)),
                Follows::Ask => unclear.push((at, record, refusal)),
                // Those after it may have been confirmed.
                Follows::Reopen => lost_because = Some(refusal),
            }
        }
        if let Some(refusal) = lost_because {
            return Err(conn.fatal().unwrap_or_else(|| Trouble::unavailable(refusal)));
        }
        self.ask(conn, unclear, slate).await?;
        Ok(alone)
    }

    /// Whether it is the topic, the brokers, or neither of them by now.
    async fn ask(
        &self,
        conn: &Conn,
        unclear: Vec<(usize, Outgoing, Refusal)>,
        slate: &Slate,
    ) -> Result<(), Trouble> {
        if unclear.is_empty() {
            return Ok(());
        }
        let topics = unclear.iter().map(|(_, record, _)| record.topic.clone()).collect();
        let found = conn.ask(topics, self.bounds.connect_within).await?;
        for (at, record, refusal) in unclear {
            match found.get(&record.topic) {
                // Its partition has no leader, or too few replicas.
                Some(Topic::There) | None => {
                    slate.settle(at, Err(self.link.failure(Class::Unavailable, refusal)));
                }
                Some(wrong) => self.settle_by_topic(at, *wrong, slate),
            }
        }
        Ok(())
    }

    fn settle_by_topic(&self, at: usize, topic: Topic, slate: &Slate) {
        match topic {
            Topic::Invalid => {
                slate.settle(at, Err(self.link.failure(Class::Poison, missing(topic))))
            }
            _ => self.wrong(at, missing(topic), slate),
        }
    }

    fn wrong(&self, at: usize, wrong: Misconfigured, slate: &Slate) {
        slate.settle(at, Err(self.link.failure(Class::Misconfigured, wrong)));
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there was no time yet to ask the brokers about the topic: the batch has many")]
struct NotAsked;

/// Hands a record to the client, when it has room.
async fn enqueue(client: &Client, record: &Outgoing) -> Result<DeliveryFuture, Refusal> {
    let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
    loop {
        match client.send_result(record.record()) {
            Ok(report) => return Ok(report),
            Err((error, _)) if error == full => {}
            Err((error, _)) => return Err(error.into()),
        }
        sleep(FULL_FOR).await;
    }
}

#[async_trait]
impl Sink for KafkaSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let (slate, events) = Slate::encoded(deliveries, |delivery| self.encode.record(delivery));
        let verdicts = &slate;
        let produce =
            |conn: Arc<Conn>, events| async move { self.produce(&conn, events, verdicts).await };
        self.link.carry_all(&slate, deliveries, events, produce).await;
        slate.verdicts()
    }

    fn is_healthy(&self) -> bool {
        self.link.is_healthy()
    }

    fn identity(&self) -> Option<usize> {
        Some(self.link.identity())
    }
}

impl std::fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSink").field("name", &self.name).finish_non_exhaustive()
    }
}
