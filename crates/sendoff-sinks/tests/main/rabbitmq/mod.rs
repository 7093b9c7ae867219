//! RabbitMQ. Tests that do a server no harm share one, where one is there; a server takes seconds of a core to start.

mod fake;

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery as Message;
use lapin::options::{
    BasicConsumeOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use sendoff_core::{Event, EventBuilder, EventId, FailureClass, Sink, StoredEvent, Verdict};
use sendoff_sinks::envelope::{CloudEventsOptions, EnvelopeOptions};
use sendoff_sinks::link::LinkOptions;
use sendoff_sinks::rabbitmq::{RabbitmqAuth, RabbitmqOptions, RabbitmqSink};
use sendoff_testkit::broker::{Broker, OwnBroker, PASSWORD, READER, USER};
use sendoff_testkit::logs::Lines;
use sendoff_testkit::sinks::killed::in_the_middle_of;
use sendoff_testkit::sinks::{
    Arrived, Expected, Refusal, Server, SinkGround, WrongCredentials, async_trait, run,
};
use sendoff_testkit::wait::within;
use tokio::task::block_in_place;
use tokio::time::Instant;
use tracing::Level;

use crate::delivery::{delivery, facts_to, is_stopped_at_the_second, patient};

use fake::{Fake, Says};

sendoff_testkit::sink_suite!(Rabbitmq::shared().await; poison credentials;
    own Rabbitmq::start().await; refusals revocation kill durable freeze);

const PLENTY: Duration = Duration::from_secs(60);
/// What may pass beyond a deadline on a busy machine.
const SLACK: Duration = Duration::from_secs(5);
/// More than the server takes.
const TOO_LARGE: usize = 2 * 1024 * 1024 + 1;

const FULL: Refusal = Refusal { name: "a full queue", expected: Expected::Unavailable };
/// Of a key that a queue took before.
const UNBOUND: Refusal = Refusal { name: "no queue", expected: Expected::Unavailable };
const GONE: Refusal = Refusal { name: "no exchange", expected: Expected::Unavailable };
const ALARM: Refusal = Refusal { name: "an alarm", expected: Expected::Unavailable };

struct Rabbitmq {
    /// None of its own: others use the server as well.
    own: Option<Mutex<OwnBroker>>,
    url: String,
    port: u16,
    exchange: String,
    /// Takes all that goes to the exchange.
    queue: String,
    /// Takes one event, and refuses the next.
    narrow: String,
    /// What was read, and so taken, from the queue.
    read: Mutex<Vec<Arrived>>,
}

impl Rabbitmq {
    /// With an exchange and queues of its own, on the server that is given, or else on its own.
    async fn shared() -> Option<Self> {
        let Some(port) = Broker::Rabbitmq.given() else { return Self::start().await };
        let rabbitmq = Self::on(None, Broker::Rabbitmq.url(port), port);
        rabbitmq.declare().await;
        Some(rabbitmq)
    }

    fn on(own: Option<OwnBroker>, url: String, port: u16) -> Self {
        let name = |what: &str| format!("{what}-{}", EventId::generate());
        Self {
            own: own.map(Mutex::new),
            url,
            port,
            exchange: name("events"),
            queue: name("all"),
            narrow: name("narrow"),
            read: Mutex::default(),
        }
    }

    /// On a server of its own.
    async fn start() -> Option<Self> {
        let own = OwnBroker::start(Broker::Rabbitmq)?;
        let (url, port) = (own.url(), own.port());
        let rabbitmq = Self::on(Some(own), url, port);
        rabbitmq.declare().await;
        // The server answers before it has written this, and a test may kill it at once.
        within(PLENTY, "the binding to be written", async || rabbitmq.has_written_binding()).await;
        Some(rabbitmq)
    }

    fn has_written_binding(&self) -> bool {
        let nodes = fs::read_dir(self.broker().folder().join("data")).unwrap();
        let is_written = |log: Vec<u8>| {
            let log = String::from_utf8_lossy(&log).into_owned();
            let bindings = log.split("rabbit_durable_route").skip(1);
            bindings.into_iter().any(|binding| binding.contains(&self.exchange))
        };
        let log = |node: std::io::Result<fs::DirEntry>| {
            fs::read(node.unwrap().path().join("LATEST.LOG")).is_ok_and(is_written)
        };
        nodes.into_iter().any(log)
    }

    fn own(&self) -> &Mutex<OwnBroker> {
        self.own.as_ref().expect("a server of its own")
    }

    fn broker(&self) -> MutexGuard<'_, OwnBroker> {
        self.own().lock().unwrap()
    }

    fn options(&self) -> RabbitmqOptions {
        let link = LinkOptions {
            deliver_within: self.deadline(),
            reopen_after: Duration::from_millis(20),
            reopen_after_most: Duration::from_millis(200),
            ..LinkOptions::default()
        };
        RabbitmqOptions {
            auth: as_user(USER, PASSWORD),
            exchange: self.exchange.clone(),
            link,
            ..RabbitmqOptions::server(format!("amqp://127.0.0.1:{}", self.port))
        }
    }

    /// For the test itself.
    async fn channel(&self) -> (Connection, Channel) {
        let connection =
            Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        (connection, channel)
    }

    async fn declare(&self) {
        let (_connection, channel) = self.channel().await;
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let none = FieldTable::default;
        let kind = ExchangeKind::Topic;
        channel
            .exchange_declare(self.exchange.as_str().into(), kind, durable, none())
            .await
            .unwrap();
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(self.queue.as_str().into(), durable, none()).await.unwrap();
        self.bind(&channel, &self.queue).await;
    }

    async fn bind(&self, channel: &Channel, queue: &str) {
        let options = QueueBindOptions::default();
        let table = FieldTable::default();
        channel
            .queue_bind(queue.into(), self.exchange.as_str().into(), "#".into(), options, table)
            .await
            .unwrap();
    }

    /// Starts the server again with these settings over its own, in Erlang's terms.
    fn restart_with(&self, settings: Option<&str>) {
        let mut broker = self.broker();
        let file = broker.folder().join("advanced.config");
        match settings {
            Some(settings) => fs::write(file, settings).unwrap(),
            None => drop(fs::remove_file(file)),
        }
        block_in_place(|| broker.restart());
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as the option is")]
fn as_user(user: &str, password: &str) -> Option<RabbitmqAuth> {
    Some(RabbitmqAuth { user: user.into(), password: password.into() })
}

#[async_trait]
impl SinkGround for Rabbitmq {
    type Sink = RabbitmqSink;

    async fn sink(&self) -> RabbitmqSink {
        RabbitmqSink::start(self.options()).await.unwrap()
    }

    async fn close(&self, sink: &RabbitmqSink) -> bool {
        sink.close().await
    }

    async fn arrived(&self) -> Vec<Arrived> {
        let (connection, channel) = self.channel().await;
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let queue =
            channel.queue_declare(self.queue.as_str().into(), passive, FieldTable::default());
        let count = usize::try_from(queue.await.unwrap().message_count()).unwrap();
        let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
        let consumer = channel.basic_consume(
            self.queue.as_str().into(),
            "".into(),
            options,
            FieldTable::default(),
        );
        let messages: Vec<_> = consumer.await.unwrap().take(count).collect().await;
        // Before anybody delivers more: the server would give it to this consumer.
        connection.close(200, "OK".into()).await.unwrap();
        let mut read = self.read.lock().unwrap();
        read.extend(messages.into_iter().map(|message| arrived(&message.unwrap())));
        read.clone()
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(3)
    }

    async fn poison(&self, event: &Event) -> Event {
        let mut stored = AsRef::<StoredEvent>::as_ref(event).clone();
        stored.payload = vec![b'x'; TOO_LARGE].into();
        Event::restore(stored).unwrap()
    }

    fn refusals(&self) -> Vec<Refusal> {
        vec![FULL, UNBOUND, GONE, ALARM]
    }

    async fn refuse(&self, refusal: &Refusal) {
        let (_connection, channel) = self.channel().await;
        match refusal.name {
            name if name == FULL.name => {
                let mut table = FieldTable::default();
                table.insert("x-max-length".into(), AMQPValue::LongInt(0));
                table.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
                let options = QueueDeclareOptions::default();
                channel.queue_declare(self.narrow.as_str().into(), options, table).await.unwrap();
                self.bind(&channel, &self.narrow).await;
            }
            name if name == UNBOUND.name => {
                let table = FieldTable::default();
                channel
                    .queue_unbind(
                        self.queue.as_str().into(),
                        self.exchange.as_str().into(),
                        "#".into(),
                        table,
                    )
                    .await
                    .unwrap();
            }
            name if name == GONE.name => {
                let options = ExchangeDeleteOptions::default();
                channel.exchange_delete(self.exchange.as_str().into(), options).await.unwrap();
            }
            _ => self.restart_with(Some("[{rabbit, [{disk_free_limit, 1000000000000000}]}].")),
        }
    }

    async fn allow(&self) {
        if self.own.is_some() && self.broker().folder().join("advanced.config").exists() {
            self.restart_with(None);
        }
        self.declare().await;
        let (_connection, channel) = self.channel().await;
        let options = QueueDeleteOptions::default();
        channel.queue_delete(self.narrow.as_str().into(), options).await.unwrap();
    }

    fn server(&self) -> &dyn Server {
        self.own()
    }

    async fn wrong_credentials(&self) -> WrongCredentials {
        let secret = "not-the-password".to_owned();
        let options = RabbitmqOptions { auth: as_user(USER, &secret), ..self.options() };
        let error = RabbitmqSink::start(options).await.err();
        let error = error.map(|error| format!("{} {error:?}", sendoff_core::report(&error)));
        WrongCredentials { error, path: "rabbitmq.auth", secret }
    }

    /// Users are read when the server starts, and connections end with it.
    async fn revoke(&self) {
        let folder = self.broker().folder().to_owned();
        let users = fs::read_to_string(folder.join("definitions.json")).unwrap();
        let others = folder.join("others.json");
        fs::write(&others, users.replace(PASSWORD, "another")).unwrap();
        let others = others.display();
        self.restart_with(Some(&format!("[{{rabbit, [{{load_definitions, \"{others}\"}}]}}].")));
    }

    async fn restore(&self) {
        self.restart_with(None);
    }
}

fn arrived(message: &Message) -> Arrived {
    let text = |value: &AMQPValue| value.as_long_string().unwrap().to_string();
    let headers = message.properties.headers().as_ref().unwrap().inner();
    let headers: BTreeMap<_, _> =
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let property =
        |property: &Option<lapin::types::ShortString>| property.as_ref().map(ToString::to_string);
    let id = property(message.properties.message_id()).unwrap();
    assert_eq!(message.properties.delivery_mode(), &Some(2), "it outlives the server");
    assert!(headers.get("sendoff-id").is_none_or(|other| *other == id));
    Arrived {
        id: id.parse().unwrap(),
        event_type: property(message.properties.kind()).unwrap(),
        payload: message.data.clone(),
        key: headers.get("sendoff-key").cloned(),
        content_type: property(message.properties.content_type()),
        headers,
    }
}

async fn deliver(sink: &RabbitmqSink, events: Vec<EventBuilder>) -> Vec<Verdict> {
    let build = |event: EventBuilder| delivery(event.bytes("1").build().unwrap());
    sink.deliver(&events.into_iter().map(build).collect::<Vec<_>>()).await
}

fn class(verdict: &Verdict) -> Result<(), FailureClass> {
    verdict.as_ref().copied().map_err(|failure| failure.class())
}

fn is_unavailable(verdict: &Verdict) -> bool {
    matches!(class(verdict), Err(FailureClass::Unavailable { .. }))
}

fn to(header: &str) -> EventBuilder {
    Event::builder("a").header("to", header)
}

/// Faults 1, 8: what is there twice has the same id and the same bytes.
#[test]
fn killed_in_the_middle_of_20_000_events_none_is_lost() {
    run(Rabbitmq::start(), |rabbitmq: Rabbitmq| async move {
        let account = in_the_middle_of(20_000, &rabbitmq).await;
        assert!(account.sent_again > 0, "{account}");
    });
}

/// The client ties a returned message to whichever confirmation comes next.
#[test]
fn of_a_large_batch_exactly_those_that_no_queue_takes_are_not_done() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        // Enough for a machine that builds something else.
        let link =
            LinkOptions { deliver_within: Duration::from_secs(60), ..LinkOptions::default() };
        let options = RabbitmqOptions {
            exchange: String::new(),
            routing_key: "{header.to}".into(),
            link,
            ..rabbitmq.options()
        };
        let sink = RabbitmqSink::start(options).await.unwrap();
        let is_lost = |number: usize| number % 3 == 1;
        let mut work = Vec::new();
        // Side by side, as an engine delivers.
        for _ in 0..4 {
            let (sink, queue) = (sink.clone(), rabbitmq.queue.clone());
            work.push(tokio::spawn(async move {
                let event = |number| to(if is_lost(number) { "nowhere" } else { &queue });
                deliver(&sink, (0..10_000).map(event).collect()).await
            }));
        }
        for work in work {
            for (number, verdict) in work.await.unwrap().iter().enumerate() {
                let expected = if is_lost(number) { Err(FailureClass::Retry) } else { Ok(()) };
                assert_eq!(class(verdict), expected, "number {number}: {verdict:?}");
            }
        }
        assert_eq!(rabbitmq.arrived().await.len(), 4 * 6_667);
    });
}

#[test]
fn without_mandatory_what_no_queue_takes_is_done() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        rabbitmq.refuse(&UNBOUND).await;
        let options = RabbitmqOptions { mandatory: false, ..rabbitmq.options() };
        let sink = RabbitmqSink::start(options).await.unwrap();
        assert!(deliver(&sink, vec![to("a")]).await[0].is_ok());
    });
}

#[test]
fn a_destination_that_is_the_same_for_all_is_waited_for() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        let options = RabbitmqOptions { routing_key: "a".into(), ..rabbitmq.options() };
        let sink = RabbitmqSink::start(options).await.unwrap();
        for refusal in [FULL, UNBOUND] {
            rabbitmq.refuse(&refusal).await;
            let verdicts = deliver(&sink, vec![to("a"), to("a")]).await;
            assert!(verdicts.iter().all(is_unavailable), "{verdicts:?}");
            rabbitmq.allow().await;
            assert!(deliver(&sink, vec![to("a")]).await[0].is_ok());
        }
    });
}

#[test]
fn an_exchange_that_is_not_there_is_found_at_the_start_or_fails_alone() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        let missing = RabbitmqOptions { exchange: "missing".into(), ..rabbitmq.options() };
        let error = RabbitmqSink::start(missing).await.unwrap_err();
        assert_eq!(error.path(), "rabbitmq.exchange");
        let options = RabbitmqOptions { exchange: "{header.to}".into(), ..rabbitmq.options() };
        let sink = RabbitmqSink::start(options).await.unwrap();
        let long = "x".repeat(256);
        let known = rabbitmq.exchange.as_str();
        let batch = [known, "missing", known, &long, "missing", known].map(to);
        let verdicts = deliver(&sink, batch.into()).await;
        let classes: Vec<_> = verdicts.iter().map(class).collect();
        let (retry, dead) = (Err(FailureClass::Retry), Err(FailureClass::Dead));
        assert_eq!(classes, [Ok(()), retry, Ok(()), dead, retry, Ok(())]);
        let told = format!("{verdicts:?}");
        assert!(!told.contains("missing"), "what a header has is not told: {told}");
        assert!(sink.is_healthy());
        // One that took events before is missing for all of them, and costs none an attempt.
        rabbitmq.refuse(&GONE).await;
        let verdicts = deliver(&sink, [known, "missing", known].map(to).into()).await;
        let classes: Vec<_> = verdicts.iter().map(class).collect();
        let waits = |class: &Result<(), FailureClass>| {
            matches!(class, Err(FailureClass::Unavailable { .. }))
        };
        assert!(waits(&classes[0]) && waits(&classes[2]), "{classes:?}");
        assert_eq!(classes[1], retry);
        rabbitmq.allow().await;
        let verdicts = deliver(&sink, [known].map(to).into()).await;
        assert_eq!(verdicts.iter().map(class).collect::<Vec<_>>(), [Ok(())]);
    });
}

#[test]
fn who_may_not_publish_and_what_is_no_vhost_are_misconfigured() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        let vhost = RabbitmqOptions { vhost: "missing".into(), ..rabbitmq.options() };
        assert_eq!(RabbitmqSink::start(vhost).await.unwrap_err().path(), "rabbitmq.vhost");
        let known = rabbitmq.exchange.as_str();
        for exchange in [known, "{header.to}"] {
            let auth = as_user(READER, PASSWORD);
            let exchange = exchange.to_owned();
            let options = RabbitmqOptions { auth, exchange, ..rabbitmq.options() };
            let sink = RabbitmqSink::start(options).await.unwrap();
            for verdict in deliver(&sink, vec![to(known), to(known)]).await {
                assert!(is_unavailable(&verdict), "{verdict:?}");
                assert!(verdict.unwrap_err().report().contains("rabbitmq.auth"));
            }
        }
    });
}

/// The server can have rights for keys of a topic exchange: who may not send one of them may send the others.
#[test]
fn a_key_that_the_user_has_no_right_to_holds_back_no_other() {
    run(Rabbitmq::start(), |rabbitmq: Rabbitmq| async move {
        let folder = rabbitmq.broker().folder().to_owned();
        let known = fs::read_to_string(folder.join("definitions.json")).unwrap();
        let exchange = &rabbitmq.exchange;
        let rights = format!(
            "{{\"topic_permissions\": [{{\"user\": \"{USER}\", \"vhost\": \"/\", \
             \"exchange\": \"{exchange}\", \"write\": \"^allowed\", \"read\": \".*\"}}],"
        );
        let others = folder.join("others.json");
        fs::write(&others, known.replacen('{', &rights, 1)).unwrap();
        let others = others.display();
        rabbitmq
            .restart_with(Some(&format!("[{{rabbit, [{{load_definitions, \"{others}\"}}]}}].")));
        let sink = rabbitmq.sink().await;
        let of = |event_type: &'static str| Event::builder(event_type);
        let batch = ["allowed.1", "forbidden", "allowed.2", "forbidden", "allowed.1"].map(of);
        let verdicts = deliver(&sink, batch.into()).await;
        for at in [1, 3] {
            assert!(is_unavailable(&verdicts[at]), "{verdicts:?}");
            let told = verdicts[at].as_ref().unwrap_err().report();
            assert!(told.contains("rabbitmq.auth"), "{told}");
        }
        assert!([0, 2, 4].iter().all(|at| verdicts[*at].is_ok()), "{verdicts:?}");
        assert!(sink.is_healthy());
    });
}

/// Otherwise consumers would have the third before the second.
#[test]
fn a_fact_that_the_server_refuses_is_not_overtaken() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        let options = RabbitmqOptions {
            exchange: String::new(),
            routing_key: "{header.to}".into(),
            link: patient(rabbitmq.options().link),
            ..rabbitmq.options()
        };
        let sink = RabbitmqSink::start(options).await.unwrap();
        let queue = rabbitmq.queue.as_str();
        let verdicts = facts_to(&sink, &[queue, "nowhere", queue]).await;
        assert!(is_stopped_at_the_second(&verdicts), "{verdicts:?}");
        assert_eq!(rabbitmq.arrived().await.len(), 1);
        assert!(facts_to(&sink, &[queue; 50]).await.iter().all(Result::is_ok));
        let payloads: Vec<_> = rabbitmq.arrived().await.into_iter().map(|a| a.payload).collect();
        let number = |number: usize| number.to_string().into_bytes();
        assert_eq!(payloads[1..], (1..=50).map(number).collect::<Vec<_>>());
    });
}

/// A sink that is blocked is not healthy, until the alarm is off.
#[test]
fn an_alarm_is_known_and_passes() {
    run(Rabbitmq::start(), |rabbitmq: Rabbitmq| async move {
        let sink = rabbitmq.sink().await;
        rabbitmq.refuse(&ALARM).await;
        within(PLENTY, "the alarm to be known", async || {
            let verdicts = deliver(&sink, vec![to("a")]).await;
            assert!(verdicts.iter().all(is_unavailable), "{verdicts:?}");
            verdicts[0].as_ref().unwrap_err().report().contains("alarm")
        })
        .await;
        assert!(!sink.is_healthy());
        rabbitmq.allow().await;
        within(PLENTY, "the alarm to pass", async || sink.is_healthy()).await;
        within(PLENTY, "events to flow", async || deliver(&sink, vec![to("a")]).await[0].is_ok())
            .await;
        assert!(sink.close().await);
    });
}

/// Headers that are instructions to the server.
#[test]
fn headers_of_an_event_do_not_steer_the_server() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        let sink = rabbitmq.sink().await;
        let queue = rabbitmq.queue.as_str();
        let event = Event::builder("a").header("CC", queue).header("BCC", queue);
        let event = event.header("expiration", "1").header("x-other", "kept");
        let verdicts = deliver(&sink, vec![event]).await;
        assert!(verdicts[0].is_ok(), "{verdicts:?}");
        let arrived = rabbitmq.arrived().await;
        assert_eq!(arrived.len(), 1);
        assert_eq!(arrived[0].headers["x-other"], "kept");
        assert!(!arrived[0].headers.contains_key("CC"));
    });
}

/// Fault 36: the client writes returned messages to the log, with their payload.
#[test]
fn no_payload_of_a_returned_message_is_in_the_log() {
    let lines = Lines::everywhere(Level::TRACE);
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        rabbitmq.refuse(&UNBOUND).await;
        let sink = rabbitmq.sink().await;
        // Nobody ever took it, so that it is its own trouble.
        let event = Event::builder("a").bytes("canary-of-the-payload").build().unwrap();
        let verdicts = sink.deliver(&[delivery(event)]).await;
        assert_eq!(class(&verdicts[0]), Err(FailureClass::Retry));
    });
    let bytes = format!("{:?}", b"canary").trim_matches(['[', ']']).to_owned();
    assert!(!lines.with("sendoff_sinks").is_empty() || !lines.with("lapin").is_empty());
    assert!(!lines.text().contains("canary") && !lines.text().contains(&bytes));
}

#[test]
fn cloud_events_are_carried_by_headers() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        let envelope = EnvelopeOptions::CloudEvents(CloudEventsOptions::binary("/shop"));
        let options = RabbitmqOptions { envelope, ..rabbitmq.options() };
        let sink = RabbitmqSink::start(options).await.unwrap();
        assert!(deliver(&sink, vec![Event::builder("a").ordering_key("k")]).await[0].is_ok());
        let arrived = rabbitmq.arrived().await.remove(0);
        assert_eq!(arrived.headers["cloudEvents_source"], "/shop");
        assert_eq!(arrived.headers["cloudEvents_partitionkey"], "k");
        assert_eq!(arrived.headers["cloudEvents_id"], arrived.id.to_string());
    });
}

/// Whom a sink believes.
#[cfg(all(feature = "rabbitmq-tls", feature = "webhook-tls"))]
#[test]
fn over_tls_a_certificate_has_to_be_of_an_authority_that_is_trusted() {
    run(Rabbitmq::shared(), |rabbitmq: Rabbitmq| async move {
        let broker = rabbitmq.port;
        let start = async |host: &str, port: u16, root_certificates: Option<std::path::PathBuf>| {
            let server = format!("amqps://{host}:{port}");
            let options = RabbitmqOptions { server, root_certificates, ..rabbitmq.options() };
            let sink = RabbitmqSink::start(options).await.unwrap();
            deliver(&sink, vec![Event::builder("a")]).await.remove(0)
        };
        crate::tls::must_be_believed(broker, start).await;
    });
}

#[tokio::test]
async fn options_that_are_wrong_are_named() {
    let refused = async |options: RabbitmqOptions| {
        let error = RabbitmqSink::start(options).await.unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        error.path().to_owned()
    };
    for server in
        ["amqp://me:secret@host", "http://host", "secret", "", "amqp://host/vhost", "amqp://host:x"]
    {
        let path = refused(RabbitmqOptions::server(server)).await;
        assert_eq!(path, "rabbitmq.server", "{server}");
    }
    if cfg!(not(feature = "rabbitmq-tls")) {
        assert_eq!(refused(RabbitmqOptions::server("amqps://host")).await, "rabbitmq.server");
    }
    let right = RabbitmqOptions::default;
    let exchange = "x".repeat(256);
    assert_eq!(refused(RabbitmqOptions { exchange, ..right() }).await, "rabbitmq.exchange");
    let routing_key = "{typ}".to_owned();
    assert_eq!(refused(RabbitmqOptions { routing_key, ..right() }).await, "rabbitmq.routing_key");
    let root_certificates = Some("roots.pem".into());
    let path = refused(RabbitmqOptions { root_certificates, ..right() }).await;
    assert_eq!(path, "rabbitmq.root_certificates", "nobody is left to believe that this is TLS");
    let vhost = "x".repeat(256);
    assert_eq!(refused(RabbitmqOptions { vhost, ..right() }).await, "rabbitmq.vhost");
    let link = LinkOptions { batches_in_flight: 2_048, ..LinkOptions::default() };
    let path = refused(RabbitmqOptions { link, ..right() }).await;
    assert_eq!(path, "rabbitmq.link.batches_in_flight");
}

#[test]
fn options_are_read_from_files() {
    let written = serde_json::json!({
        "server": "amqp://rabbitmq.example",
        "vhost": "shop",
        "auth": { "user": "shop", "password": "secret" },
        "exchange": "shop.{aggregate_type}",
        "mandatory": false,
        "link": { "deliver_within": "5s" },
    });
    let options: RabbitmqOptions = serde_json::from_value(written).unwrap();
    assert!(!format!("{options:?}").contains("secret"));
    let link = LinkOptions { deliver_within: Duration::from_secs(5), ..LinkOptions::default() };
    let expected = RabbitmqOptions {
        vhost: "shop".into(),
        auth: as_user("shop", "secret"),
        exchange: "shop.{aggregate_type}".into(),
        mandatory: false,
        link,
        ..RabbitmqOptions::server("amqp://rabbitmq.example")
    };
    assert_eq!(options, expected);
}

/// With a server that is a fake.
fn to_fake(fake: &Fake, deliver_within: Duration) -> RabbitmqOptions {
    let link = LinkOptions {
        connect_within: deliver_within,
        deliver_within,
        reopen_after: Duration::from_millis(1),
        reopen_after_most: Duration::from_millis(2),
        ..LinkOptions::default()
    };
    RabbitmqOptions { link, ..RabbitmqOptions::server(fake.url()) }
}

/// Wherever it falls silent, whoever shakes hands with it gives up in time, and the next one begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_while_it_shakes_hands_is_tried_again() {
    let within_a = Duration::from_millis(300);
    for says in [Says::Nothing, Says::Start, Says::Tune, Says::Open] {
        let fake = Fake::start(says).await;
        let sink = RabbitmqSink::start(to_fake(&fake, within_a)).await.unwrap();
        for _ in 0..3 {
            within(PLENTY, "its turn", async || sink.is_healthy()).await;
            let begun = Instant::now();
            let verdicts = deliver(&sink, vec![to("a"), to("b")]).await;
            assert!(verdicts.iter().all(is_unavailable), "{says:?}: {verdicts:?}");
            assert!(begun.elapsed() < within_a + SLACK, "{says:?}: {:?}", begun.elapsed());
        }
        assert!(fake.connections() >= 3, "{says:?}: each begins anew");
        fake.says(Says::All { each: Duration::ZERO });
        within(PLENTY, "it to speak again", async || {
            deliver(&sink, vec![to("a"), to("b")]).await.iter().all(Result::is_ok)
        })
        .await;
        assert!(sink.is_healthy() && sink.close().await, "{says:?}");
    }
}

/// A batch takes longer than it may, and is not sent again as a whole for ever: each time some of it is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_confirms_slowly_is_done_in_the_end_and_costs_few_repetitions() {
    let fake = Fake::start(Says::All { each: Duration::from_millis(5) }).await;
    let sink = RabbitmqSink::start(to_fake(&fake, Duration::from_millis(400))).await.unwrap();
    let mut left = 400;
    within(PLENTY, "all of them", async || {
        if sink.is_healthy() {
            let verdicts = deliver(&sink, (0..left).map(|_| to("a")).collect()).await;
            let failed = verdicts.iter().filter(|verdict| verdict.is_err());
            assert!(failed.clone().all(is_unavailable), "{verdicts:?}");
            left = failed.count();
        }
        left == 0
    })
    .await;
    assert!(fake.connections() < 10, "{} connections", fake.connections());
    sink.close().await;
}

/// While it is blocked nothing is written, so that the end of the connection is not answered and nobody tells of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_passes_with_the_connection_that_it_was_of() {
    let fake = Fake::start(Says::All { each: Duration::ZERO }).await;
    let sink = RabbitmqSink::start(to_fake(&fake, PLENTY)).await.unwrap();
    assert!(deliver(&sink, vec![to("a")]).await[0].is_ok());
    fake.says(Says::BlockedAndClosed);
    within(PLENTY, "its end to be said", async || fake.closed() == 1).await;
    fake.says(Says::All { each: Duration::ZERO });
    within(PLENTY, "a new connection", async || {
        sink.is_healthy()
            && deliver(&sink, vec![to("a")]).await[0].is_ok()
            && fake.connections() > 1
    })
    .await;
    sink.close().await;
}

/// Its client leaves a task behind for each connection that it begins and does not reach anybody with.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_costs_no_memory() {
    let (fake, tasks) = (Fake::start(Says::Nothing).await, tokio::runtime::Handle::current());
    let port = sendoff_testkit::servers::free_port();
    let options = RabbitmqOptions {
        server: format!("amqp://127.0.0.1:{port}"),
        ..to_fake(&fake, Duration::from_secs(5))
    };
    let sink = RabbitmqSink::start(options).await.unwrap();
    let before = tasks.metrics().num_alive_tasks();
    for _ in 0..50 {
        within(PLENTY, "its turn", async || sink.is_healthy()).await;
        assert!(is_unavailable(&deliver(&sink, vec![to("a")]).await[0]));
    }
    let after = || tasks.metrics().num_alive_tasks();
    within(PLENTY, "tasks to end", async || after() <= before + 1).await;
    sink.close().await;
}
