//! Kafka, on a mock cluster of three brokers that librdkafka has, each test's own; and the same suite on the broker that
//! `SENDOFF_KAFKA_URL` names (`named.rs`).

mod cluster;
mod named;
mod refusing;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use rdkafka::message::{Headers, Message, OwnedMessage};
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Code};
use sendoff_core::{Event, EventBuilder, FailureClass, Sink, StoredEvent, Verdict};
use sendoff_sinks::envelope::{CloudEventsOptions, EnvelopeOptions};
use sendoff_sinks::kafka::{KafkaAuth, KafkaOptions, KafkaSink, SaslMechanism};
use sendoff_sinks::link::LinkOptions;
use sendoff_sinks::template::KeyOptions;
use sendoff_testkit::sinks::killed::in_the_middle_of;
use sendoff_testkit::sinks::{
    Arrived, Expected, Refusal, Server, SinkGround, WrongCredentials, async_trait, run,
};

use self::cluster::{Cluster, read};
use crate::delivery::{delivery, facts_to, is_stopped_at_the_second, patient};

sendoff_testkit::sink_suite!(Kafka::start().await;
    poison refusals credentials revocation kill freeze; without
    durable = "the mock cluster keeps everything in memory");

const TOPIC: &str = "events";
/// What the client takes unless it is told otherwise, headers included.
const MAX_MESSAGE: usize = 1_000_000;

const REFUSED: Refusal =
    Refusal { name: "a policy of the brokers", expected: Expected::RefusedNow };
const TOO_FEW: Refusal = Refusal { name: "too few replicas", expected: Expected::Unavailable };
const NOT_ALLOWED: Refusal = Refusal { name: "no permission", expected: Expected::Unavailable };

const DEADLINE: Duration = Duration::from_secs(3);

struct Kafka(Cluster);

impl Kafka {
    async fn start() -> Self {
        let cluster = Cluster::start();
        cluster.mock().create_topic(TOPIC, 4, 3).unwrap();
        Self(cluster)
    }

    fn options(&self) -> KafkaOptions {
        options(self.0.brokers())
    }

    /// The answers to requests of this kind, one for each.
    fn answer(&self, api: Api, answers: &[Code]) {
        self.0.mock().request_errors(api, answers);
    }

    fn records(&self, topic: &str) -> Vec<OwnedMessage> {
        tokio::task::block_in_place(|| read(&self.0.brokers(), topic))
    }
}

fn options(brokers: Vec<String>) -> KafkaOptions {
    let link = LinkOptions {
        connect_within: Duration::from_secs(2),
        deliver_within: DEADLINE,
        reopen_after: Duration::from_millis(20),
        reopen_after_most: Duration::from_millis(200),
        ..LinkOptions::default()
    };
    KafkaOptions { brokers, link, ..KafkaOptions::topic(TOPIC) }
}

fn too_large(event: &Event) -> Event {
    let mut stored = AsRef::<StoredEvent>::as_ref(event).clone();
    stored.payload = vec![b'x'; MAX_MESSAGE].into();
    Event::restore(stored).unwrap()
}

#[async_trait]
impl SinkGround for Kafka {
    type Sink = KafkaSink;

    async fn sink(&self) -> KafkaSink {
        KafkaSink::start(self.options()).await.unwrap()
    }

    async fn close(&self, sink: &KafkaSink) -> bool {
        sink.close().await
    }

    async fn arrived(&self) -> Vec<Arrived> {
        self.records(TOPIC).iter().map(arrived).collect()
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn payload_bytes(&self) -> usize {
        MAX_MESSAGE - 2_048
    }

    /// And the mock cluster does not know a batch again that it has, as Kafka does.
    fn resends(&self) -> bool {
        true
    }

    async fn poison(&self, event: &Event) -> Event {
        too_large(event)
    }

    fn refusals(&self) -> Vec<Refusal> {
        vec![REFUSED, TOO_FEW, NOT_ALLOWED]
    }

    async fn refuse(&self, refusal: &Refusal) {
        let answer = match refusal.name {
            name if name == REFUSED.name => Code::RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
            name if name == TOO_FEW.name => Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            _ => Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        };
        self.answer(Api::Produce, &[answer; 1_000]);
    }

    async fn allow(&self) {
        self.0.mock().clear_request_errors(Api::Produce);
    }

    fn server(&self) -> &dyn Server {
        &self.0
    }

    async fn wrong_credentials(&self) -> WrongCredentials {
        let secret = "not-the-password".to_owned();
        let auth = KafkaAuth {
            mechanism: SaslMechanism::Plain,
            user: "shop".into(),
            password: secret.as_str().into(),
        };
        let brokers = vec![refusing::start().await.to_string()];
        let error = KafkaSink::start(KafkaOptions { auth: Some(auth), ..options(brokers) }).await;
        let error = error.err().map(|error| format!("{} {error:?}", sendoff_core::report(&error)));
        WrongCredentials { error, path: "kafka.auth", secret }
    }

    async fn revoke(&self) {
        self.refuse(&NOT_ALLOWED).await;
    }

    async fn restore(&self) {
        self.allow().await;
    }
}

fn headers(record: &OwnedMessage) -> BTreeMap<String, String> {
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    let headers = record.headers().unwrap().iter();
    headers.map(|header| (header.key.to_owned(), text(header.value.unwrap()))).collect()
}

fn key(record: &OwnedMessage) -> Option<String> {
    record.key().map(|key| String::from_utf8(key.to_vec()).unwrap())
}

fn arrived(record: &OwnedMessage) -> Arrived {
    let headers = headers(record);
    let header = |name: &str| headers.get(name).cloned();
    Arrived {
        id: header("sendoff-id").unwrap().parse().unwrap(),
        event_type: header("sendoff-type").unwrap(),
        payload: record.payload().expect("an empty payload is no tombstone").to_vec(),
        key: key(record),
        content_type: header("content-type"),
        headers,
    }
}

async fn deliver(sink: &KafkaSink, events: Vec<EventBuilder>) -> Vec<Verdict> {
    let build = |event: EventBuilder| delivery(event.bytes("1").build().unwrap());
    sink.deliver(&events.into_iter().map(build).collect::<Vec<_>>()).await
}

fn class(verdict: &Verdict) -> Result<(), FailureClass> {
    match verdict {
        Ok(()) => Ok(()),
        Err(failure) => Err(failure.class()),
    }
}

fn is_unavailable(verdict: &Verdict) -> bool {
    matches!(class(verdict), Err(FailureClass::Unavailable { .. }))
}

/// Fault 7: all brokers go and come, three times. What is there twice has the same id and the same bytes.
#[test]
fn with_all_brokers_down_in_the_middle_of_20_000_events_none_is_lost() {
    run(Kafka::start(), |kafka: Kafka| async move {
        in_the_middle_of(20_000, &kafka).await;
    });
}

#[test]
fn a_broker_that_is_down_is_done_without() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let sink = kafka.sink().await;
        // The mock moves no leaders by itself.
        for partition in 0..4 {
            kafka.0.mock().partition_leader(TOPIC, partition, Some(1)).unwrap();
        }
        kafka.0.mock().broker_down(2).unwrap();
        let event = |number: usize| Event::builder("a").ordering_key(number.to_string()).bytes("1");
        let mut left: Vec<_> =
            (0..50).map(|number| delivery(event(number).build().unwrap())).collect();
        // Records that went to the one that is down are delivered again.
        let begun = Instant::now();
        while !left.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} are left", left.len());
            let mut verdicts = sink.deliver(&left).await.into_iter();
            left.retain(|_| {
                let verdict = verdicts.next().unwrap();
                assert!(verdict.is_ok() || is_unavailable(&verdict), "{verdict:?}");
                verdict.is_err()
            });
        }
        let keys: HashSet<_> = kafka.records(TOPIC).iter().map(key).collect();
        assert_eq!(keys.len(), 50);
    });
}

/// The client sends again by itself what brokers refuse for a moment.
#[test]
fn what_passes_by_itself_is_no_failure() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let sink = kafka.sink().await;
        kafka.answer(
            Api::Produce,
            &[
                Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                Code::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
                Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ],
        );
        let verdicts = deliver(&sink, (0..20).map(|_| Event::builder("a")).collect()).await;
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
    });
}

/// To the client a topic that is not there looks like an outage.
#[test]
fn a_topic_that_is_not_there_is_found_at_the_start_or_fails_alone() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let unknown = Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        kafka.0.mock().topic_error("missing", unknown).unwrap();
        let missing = KafkaOptions { topic: "missing".into(), ..kafka.options() };
        assert_eq!(KafkaSink::start(missing).await.unwrap_err().path(), "kafka.topic");

        let options = KafkaOptions { topic: "{header.to}".into(), ..kafka.options() };
        let sink = KafkaSink::start(options).await.unwrap();
        let to = |topic: &str| Event::builder("a").header("to", topic);
        let begun = Instant::now();
        let batch = ["events", "missing", "events", "not a topic", "..", "others"];
        let verdicts = deliver(&sink, batch.map(to).into()).await;
        assert!(begun.elapsed() < kafka.deadline(), "nobody waits for it: {:?}", begun.elapsed());
        assert!([0, 2, 5].iter().all(|at| verdicts[*at].is_ok()), "{verdicts:?}");
        assert!(is_unavailable(&verdicts[1]), "{verdicts:?}");
        let told = verdicts[1].as_ref().unwrap_err().report();
        assert!(told.contains("kafka.topic"), "{told}");
        let dead = Err(FailureClass::Dead);
        assert_eq!((class(&verdicts[3]), class(&verdicts[4])), (dead, dead));
        assert!(sink.is_healthy());
    });
}

/// One that was there, and is deleted.
#[test]
fn a_topic_that_is_deleted_is_misconfigured_until_it_is_back() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let sink = kafka.sink().await;
        assert!(deliver(&sink, vec![Event::builder("a")]).await[0].is_ok());
        let unknown = Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        kafka.0.mock().topic_error(TOPIC, unknown).unwrap();
        kafka.answer(Api::Produce, &[unknown; 100]);
        let verdicts = deliver(&sink, vec![Event::builder("a"), Event::builder("b")]).await;
        assert!(verdicts.iter().all(is_unavailable), "{verdicts:?}");
        let told = verdicts[0].as_ref().unwrap_err().report();
        assert!(told.contains("kafka.topic"), "{told}");
    });
}

/// Brokers answer for all records of a request.
#[test]
fn what_is_too_large_with_others_is_sent_alone_and_dead_if_it_is_too_large_then() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let sink = kafka.sink().await;
        let too_large = Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
        kafka.answer(Api::Produce, &[too_large]);
        let events = (0..20).map(|_| Event::builder("a").ordering_key("k")).collect();
        let verdicts = deliver(&sink, events).await;
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
        assert_eq!(kafka.records(TOPIC).len(), 20);

        kafka.answer(Api::Produce, &[too_large; 2]);
        let verdicts = deliver(&sink, vec![Event::builder("a")]).await;
        assert_eq!(class(&verdicts[0]), Err(FailureClass::Dead));
        assert!(deliver(&sink, vec![Event::builder("a")]).await[0].is_ok());
    });
}

/// Records have the time of this machine's clock, which is no event's fault.
#[test]
fn a_clock_that_brokers_do_not_believe_kills_no_event() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let sink = kafka.sink().await;
        kafka.answer(Api::Produce, &[Code::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP; 100]);
        let verdicts = deliver(&sink, vec![Event::builder("a"), Event::builder("b")]).await;
        assert!(verdicts.iter().all(is_unavailable), "{verdicts:?}");
        kafka.allow().await;
        assert!(deliver(&sink, vec![Event::builder("a")]).await[0].is_ok());
    });
}

/// More topics than can be asked about one by one in the time of a batch.
#[test]
fn a_batch_with_many_topics_gets_on() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let options = KafkaOptions { topic: "{header.to}".into(), ..kafka.options() };
        let sink = KafkaSink::start(options).await.unwrap();
        for number in 0..200 {
            kafka.0.mock().create_topic(&format!("t{number}"), 1, 1).unwrap();
        }
        for broker in 1..=3 {
            kafka.0.mock().broker_round_trip_time(broker, Duration::from_millis(20)).unwrap();
        }
        let event =
            |number: usize| Event::builder("a").header("to", format!("t{number}")).bytes("1");
        let mut left: Vec<_> = (0..200).map(|n| delivery(event(n).build().unwrap())).collect();
        let begun = Instant::now();
        while !left.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{} are left", left.len());
            let mut verdicts = sink.deliver(&left).await.into_iter();
            left.retain(|_| verdicts.next().unwrap().is_err());
        }
    });
}

/// Otherwise consumers would have the third before the second.
#[test]
fn a_fact_that_the_server_refuses_is_not_overtaken() {
    run(Kafka::start(), |kafka: Kafka| async move {
        // Each a request of its own, to one partition.
        let properties = [("batch.num.messages".to_owned(), "1".into())].into();
        let key = KeyOptions::Template("k".into());
        let link = patient(kafka.options().link);
        let options = KafkaOptions { properties, key, link, ..kafka.options() };
        let sink = KafkaSink::start(options).await.unwrap();
        let (well, refused) =
            (Code::RD_KAFKA_RESP_ERR_NO_ERROR, Code::RD_KAFKA_RESP_ERR_POLICY_VIOLATION);
        kafka.answer(Api::Produce, &[well, refused]);
        let verdicts = facts_to(&sink, &["", "", ""]).await;
        assert!(is_stopped_at_the_second(&verdicts), "{verdicts:?}");
        assert_eq!(kafka.records(TOPIC).len(), 1);
    });
}

/// Known, and wrong: where a batch is more than one request, and the brokers refuse the first as a whole, what is sent again
/// alone comes after what they took of the same key. All of it is done, so that nobody delivers it again in order.
#[test]
fn what_is_sent_again_alone_comes_after_later_requests_of_its_key() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let properties = [("batch.num.messages".to_owned(), "5".into())].into();
        let options = KafkaOptions { properties, ..kafka.options() };
        let sink = KafkaSink::start(options).await.unwrap();
        kafka.answer(Api::Produce, &[Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
        let event = |number: u8| Event::builder("a").ordering_key("k").bytes(vec![number]);
        let batch: Vec<_> = (0..20).map(|n| delivery(event(n).build().unwrap())).collect();
        let verdicts = sink.deliver(&batch).await;
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
        let records = kafka.records(TOPIC);
        let found: Vec<_> = records.iter().map(|record| record.payload().unwrap()[0]).collect();
        // How many were in the first request is up to the client, which does not wait for more.
        let refused = found[0];
        assert!((1..=5).contains(&refused), "{found:?}");
        assert_eq!(found, (refused..20).chain(0..refused).collect::<Vec<_>>());
    });
}

/// After a fatal error a producer takes nothing any more.
#[test]
fn a_producer_that_met_a_fatal_error_is_replaced() {
    run(Kafka::start(), |kafka: Kafka| async move {
        kafka.answer(
            Api::InitProducerId,
            &[Code::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED; 2],
        );
        let sink = kafka.sink().await;
        let (begun, mut told) = (Instant::now(), String::new());
        loop {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not recover");
            match &deliver(&sink, vec![Event::builder("a")]).await[0] {
                Ok(()) => break,
                Err(failure) => told += &failure.report(),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(told.is_empty() || told.contains("kafka.auth"), "{told}");
    });
}

/// Vectors of Java's client (`UtilsTest.testMurmur2`), as partitions of 12.
#[test]
fn a_key_lands_where_a_producer_in_java_puts_it() {
    run(Kafka::start(), |kafka: Kafka| async move {
        kafka.0.mock().create_topic("keyed", 12, 3).unwrap();
        let options = KafkaOptions { topic: "keyed".into(), ..kafka.options() };
        let sink = KafkaSink::start(options).await.unwrap();
        let vectors: [(&str, i32); 5] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ];
        let events = vectors.map(|(key, _)| Event::builder("a").ordering_key(key));
        assert!(deliver(&sink, events.into()).await.iter().all(Result::is_ok));
        let found: HashMap<_, _> = kafka
            .records("keyed")
            .iter()
            .map(|record| (key(record).unwrap(), record.partition()))
            .collect();
        for (key, hash) in vectors {
            assert_eq!(found[key], (hash & 0x7fff_ffff) % 12, "{key}");
        }
    });
}

#[test]
fn keys_and_cloud_events_are_as_the_options_say() {
    run(Kafka::start(), |kafka: Kafka| async move {
        let envelope = EnvelopeOptions::CloudEvents(CloudEventsOptions::binary("/shop"));
        let sink = KafkaSink::start(KafkaOptions {
            envelope,
            key: KeyOptions::Template("{tenant}/{key|none}".into()),
            properties: [("compression.type".to_owned(), "gzip".into())].into(),
            ..kafka.options()
        });
        let sink = sink.await.unwrap();
        let whole = Event::builder("a").tenant_id("acme").ordering_key("k");
        let verdicts = deliver(&sink, vec![whole, Event::builder("without a tenant")]).await;
        assert!(verdicts[0].is_ok());
        assert_eq!(class(&verdicts[1]), Err(FailureClass::Dead));
        let records = kafka.records(TOPIC);
        let headers = headers(&records[0]);
        assert_eq!(key(&records[0]).as_deref(), Some("acme/k"));
        assert_eq!(headers["ce_source"], "/shop");
        assert_eq!(headers["ce_partitionkey"], "k");
        assert_eq!(headers["content-type"], "application/octet-stream");
    });
}

#[tokio::test]
async fn options_that_are_wrong_are_named() {
    let refused = async |options: KafkaOptions| {
        let error = KafkaSink::start(options).await.unwrap_err();
        let told = format!("{} {error:?}", sendoff_core::report(&error));
        assert!(!told.contains("secret"), "{told}");
        error.path().to_owned()
    };
    let right = KafkaOptions::default;
    assert_eq!(refused(KafkaOptions { brokers: Vec::new(), ..right() }).await, "kafka.brokers");
    for broker in ["me:secret@host:9092", "host", "kafka://host:9092", "a:1,b:2", ""] {
        let brokers = vec![broker.to_owned()];
        assert_eq!(refused(KafkaOptions { brokers, ..right() }).await, "kafka.brokers");
    }
    for topic in ["", "a b", "..", "a/{type}"] {
        assert_eq!(refused(KafkaOptions::topic(topic)).await, "kafka.topic");
    }
    let key = KeyOptions::Template("{nothing}".into());
    assert_eq!(refused(KafkaOptions { key, ..right() }).await, "kafka.key");
    assert_eq!(refused(KafkaOptions { name: String::new(), ..right() }).await, "kafka.name");
    let link = LinkOptions { deliver_within: Duration::from_millis(999), ..LinkOptions::default() };
    assert_eq!(refused(KafkaOptions { link, ..right() }).await, "kafka.link.deliver_within");
    let root_certificates = Some("roots.pem".into());
    let path = refused(KafkaOptions { root_certificates, ..right() }).await;
    assert_eq!(path, "kafka.root_certificates");
    let property = async |name: &str| {
        let properties = [(name.to_owned(), "secret".into())].into();
        refused(KafkaOptions { properties, ..right() }).await
    };
    // The sink's own, one that is not known, and one whose value the client would show.
    for name in ["acks", "sasl.password", "no.such.property", "linger.ms"] {
        assert_eq!(property(name).await, format!("kafka.properties.{name}"));
    }
    // Right by themselves, and not together.
    let together = |name: &str, value: &str| {
        let properties = [(name.to_owned(), value.into())].into();
        refused(KafkaOptions { properties, ..right() })
    };
    let path = together("max.in.flight.requests.per.connection", "100").await;
    assert_eq!(path, "kafka.properties");
    // Nothing would ever be done.
    let path = together("delivery.report.only.error", "true").await;
    assert_eq!(path, "kafka.properties.delivery.report.only.error");
}

#[cfg(not(feature = "kafka-tls"))]
#[tokio::test]
async fn what_needs_tls_says_which_feature_that_is() {
    let error = KafkaSink::start(KafkaOptions { tls: true, ..KafkaOptions::default() }).await;
    assert!(error.unwrap_err().to_string().contains("kafka-tls"));
    let auth = |mechanism| KafkaAuth { mechanism, user: "a".into(), password: "b".into() };
    let auth = Some(auth(SaslMechanism::ScramSha512));
    let error = KafkaSink::start(KafkaOptions { auth, ..KafkaOptions::default() }).await;
    assert_eq!(error.unwrap_err().path(), "kafka.auth.mechanism");
}

#[test]
fn options_are_read_from_files() {
    let written = serde_json::json!({
        "brokers": ["kafka-1.example:9092"],
        "auth": { "mechanism": "scram-sha-512", "user": "shop", "password": "secret" },
        "tls": true,
        "topic": "shop.{type}",
        "key": { "template": "{tenant}" },
        "properties": { "compression.type": "lz4", "ssl.key.password": "secret" },
        "link": { "deliver_within": "20s" },
    });
    let options: KafkaOptions = serde_json::from_value(written).unwrap();
    assert!(!format!("{options:?}").contains("secret"));
    let properties = [("compression.type", "lz4"), ("ssl.key.password", "secret")];
    let expected = KafkaOptions {
        brokers: vec!["kafka-1.example:9092".into()],
        auth: Some(KafkaAuth {
            mechanism: SaslMechanism::ScramSha512,
            user: "shop".into(),
            password: "secret".into(),
        }),
        tls: true,
        key: KeyOptions::Template("{tenant}".into()),
        properties: properties.map(|(name, value)| (name.to_owned(), value.into())).into(),
        link: LinkOptions { deliver_within: Duration::from_secs(20), ..LinkOptions::default() },
        ..KafkaOptions::topic("shop.{type}")
    };
    assert_eq!(options, expected);
    let unknown = serde_json::json!({ "topics": "a" });
    assert!(serde_json::from_value::<KafkaOptions>(unknown).is_err());
}
