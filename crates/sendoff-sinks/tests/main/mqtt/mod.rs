//! MQTT 5, on a Mosquitto of each test's own; what that does rarely or never, on a broker in the test (`fake.rs`).

mod fake;

use std::collections::HashMap;
use std::fs;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use rumqttc::mqttbytes::QoS;
use rumqttc::mqttbytes::v5::{Packet, Publish};
use rumqttc::{
    AsyncClient, Broker as Address, BrokerSessionResumePolicy, Event as Polled, EventLoop,
    MqttOptions as ClientOptions,
};
use sendoff_core::{Delivery, Event, EventBuilder, FailureClass, Sink, StoredEvent, Verdict};
use sendoff_sinks::envelope::{CloudEventsOptions, EnvelopeOptions};
use sendoff_sinks::link::LinkOptions;
use sendoff_sinks::mqtt::{MqttAuth, MqttOptions, MqttSink};
use sendoff_testkit::broker::{Broker, OwnBroker, PASSWORD, READER, USER};
use sendoff_testkit::sinks::{
    Arrived, Expected, Refusal, Server, SinkGround, WrongCredentials, async_trait, run,
};
use sendoff_testkit::wait::within;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, block_in_place, yield_now};
use tokio::time::{Instant, sleep, timeout};

use self::fake::{Fake, PACKET_TOO_LARGE};
use crate::delivery::{delivery, facts_to, is_stopped_at_the_second, patient};

sendoff_testkit::sink_suite!(Mosquitto::start().await;
    poison refusals credentials revocation kill freeze; without
    durable = "Mosquitto keeps what it acknowledged in memory, and loses it when it is killed");

/// More than the broker takes as a packet, and as a payload.
const LARGE_PACKET: usize = 3 * 1024 * 1024;
const LARGE_PAYLOAD: usize = 2 * 1024 * 1024 + 1;
/// Who everything waits for.
const SUBSCRIBER: &str = "subscriber";
/// Where the test tells itself that it has read everything.
const MARK: &str = "mark";
const PLENTY: Duration = Duration::from_secs(60);

const FORBIDDEN: Refusal = Refusal { name: "no permission", expected: Expected::Unavailable };

struct Mosquitto {
    own: Mutex<OwnBroker>,
    /// What was read, and so taken, from the session of the subscriber.
    read: Mutex<Vec<Publish>>,
}

impl Mosquitto {
    async fn start() -> Option<Self> {
        let own = Mutex::new(OwnBroker::start(Broker::Mosquitto)?);
        let mosquitto = Self { own, read: Mutex::default() };
        let (client, mut events) = mosquitto.subscribe(SUBSCRIBER).await;
        leave(&client, &mut events).await;
        Some(mosquitto)
    }

    fn broker(&self) -> MutexGuard<'_, OwnBroker> {
        self.own.lock().unwrap()
    }

    fn options(&self) -> MqttOptions {
        let link = LinkOptions {
            deliver_within: self.deadline(),
            reopen_after: Duration::from_millis(20),
            reopen_after_most: Duration::from_millis(200),
            ..LinkOptions::default()
        };
        MqttOptions {
            auth: as_user(USER, PASSWORD),
            link,
            ..MqttOptions::server(format!("mqtt://127.0.0.1:{}", self.broker().port()))
        }
    }

    /// For the test itself. Its session outlives its connections.
    fn client(&self, id: &str) -> (AsyncClient, EventLoop) {
        let mut options = ClientOptions::new(id, Address::tcp("127.0.0.1", self.broker().port()));
        options.set_credentials(USER, PASSWORD).set_clean_start(false);
        options.set_broker_session_resume_policy(BrokerSessionResumePolicy::AllowBrokerOnly);
        options.set_session_expiry_interval(Some(u32::MAX)).set_unlimited_incoming_packet_size();
        AsyncClient::builder(options).build()
    }

    async fn subscribe(&self, id: &str) -> (AsyncClient, EventLoop) {
        let (client, mut events) = self.client(id);
        client.subscribe("#", QoS::AtLeastOnce).await.unwrap();
        while !matches!(events.poll().await.unwrap(), Polled::Incoming(Packet::SubAck(_))) {}
        (client, events)
    }

    /// Reads what waits for the subscriber, up to a mark that is set now.
    async fn read(&self) -> Vec<Publish> {
        let mark = format!("{MARK}/{}", fastrand::u64(..));
        let options = MqttOptions { topic: mark.clone(), ..self.options() };
        let sink = MqttSink::start(options).await.unwrap();
        assert!(deliver(&sink, vec![Event::builder("a")]).await[0].is_ok());
        let (client, mut events) = self.client(SUBSCRIBER);
        let reading = async {
            loop {
                match events.poll().await.unwrap() {
                    Polled::Incoming(Packet::Publish(message)) if message.topic == mark => break,
                    Polled::Incoming(Packet::Publish(message)) => {
                        let mut read = self.read.lock().unwrap();
                        // What was read, and not yet acknowledged when the connection ended, comes again.
                        let is_read = |other: &Publish| {
                            message.payload == other.payload
                                && message.properties == other.properties
                        };
                        let is_again = message.dup && read.iter().any(is_read);
                        if !message.topic.starts_with(MARK.as_bytes()) && !is_again {
                            read.push(message);
                        }
                    }
                    _ => {}
                }
            }
            leave(&client, &mut events).await;
        };
        timeout(PLENTY, reading).await.expect("all is read");
        self.read.lock().unwrap().clone()
    }

    /// Changes a file of the broker's, and has it read that.
    fn change(&self, file: &str, from: &str, to: &str) {
        let broker = self.broker();
        let file = broker.folder().join(file);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&file, text.replace(from, to)).unwrap();
        broker.reload();
    }

    /// Whether the user may publish now, where it is known at all.
    async fn lets_publish(&self) -> Option<bool> {
        let options = MqttOptions { topic: format!("{MARK}/probe"), ..self.options() };
        let sink = MqttSink::start(options).await.ok()?;
        let is_done = deliver(&sink, vec![Event::builder("a")]).await[0].is_ok();
        sink.close().await;
        Some(is_done)
    }

    /// Comes back when the broker has read what was changed.
    async fn knows(&self, expected: Option<bool>) {
        let begun = Instant::now();
        while self.lets_publish().await != expected {
            assert!(begun.elapsed() < PLENTY, "the broker does not know it");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Ends a connection in good order.
async fn leave(client: &AsyncClient, events: &mut EventLoop) {
    client.disconnect().await.unwrap();
    while events.poll().await.is_ok() {}
}

#[expect(clippy::unnecessary_wraps, reason = "as the option is")]
fn as_user(user: &str, password: &str) -> Option<MqttAuth> {
    Some(MqttAuth { user: user.into(), password: password.into() })
}

/// A kill is an end in good order: Mosquitto writes what waits for a subscriber when it ends, and not before.
#[async_trait]
impl Server for Mosquitto {
    async fn kill(&self) {
        block_in_place(|| self.broker().stop());
    }

    async fn start(&self) {
        block_in_place(|| self.broker().restart());
    }

    async fn freeze(&self) {
        self.broker().freeze();
    }

    async fn thaw(&self) {
        self.broker().thaw();
    }
}

#[async_trait]
impl SinkGround for Mosquitto {
    type Sink = MqttSink;

    async fn sink(&self) -> MqttSink {
        MqttSink::start(self.options()).await.unwrap()
    }

    async fn close(&self, sink: &MqttSink) -> bool {
        sink.close().await
    }

    async fn arrived(&self) -> Vec<Arrived> {
        self.read().await.iter().map(arrived).collect()
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(3)
    }

    async fn poison(&self, event: &Event) -> Event {
        with_payload(event, LARGE_PACKET)
    }

    fn refusals(&self) -> Vec<Refusal> {
        vec![FORBIDDEN]
    }

    async fn refuse(&self, _: &Refusal) {
        self.change("rights", "readwrite", "read");
        self.knows(Some(false)).await;
    }

    async fn allow(&self) {
        self.change(
            "rights",
            &format!("{USER}\ntopic read "),
            &format!("{USER}\ntopic readwrite "),
        );
        self.knows(Some(true)).await;
    }

    fn server(&self) -> &dyn Server {
        self
    }

    async fn wrong_credentials(&self) -> WrongCredentials {
        let secret = "not-the-password".to_owned();
        let options = MqttOptions { auth: as_user(USER, &secret), ..self.options() };
        let error = MqttSink::start(options).await.err();
        let error = error.map(|error| format!("{} {error:?}", sendoff_core::report(&error)));
        WrongCredentials { error, path: "mqtt.auth", secret }
    }

    /// Who is not known any more loses the connection too.
    async fn revoke(&self) {
        self.change("passwords", &format!("{USER}:"), "nobody:");
        self.knows(None).await;
    }

    async fn restore(&self) {
        self.change("passwords", "nobody:", &format!("{USER}:"));
        self.knows(Some(true)).await;
    }
}

fn with_payload(event: &Event, bytes: usize) -> Event {
    let mut stored = AsRef::<StoredEvent>::as_ref(event).clone();
    stored.payload = vec![b'x'; bytes].into();
    Event::restore(stored).unwrap()
}

fn arrived(message: &Publish) -> Arrived {
    let properties = message.properties.clone().unwrap();
    let headers: HashMap<_, _> = properties.user_properties.into_iter().collect();
    Arrived {
        id: headers["sendoff-id"].parse().unwrap(),
        event_type: headers["sendoff-type"].clone(),
        payload: message.payload.to_vec(),
        key: headers.get("sendoff-key").cloned(),
        content_type: properties.content_type,
        headers: headers.into_iter().collect(),
    }
}

async fn deliver(sink: &MqttSink, events: Vec<EventBuilder>) -> Vec<Verdict> {
    let build = |event: EventBuilder| delivery(event.bytes("1").build().unwrap());
    sink.deliver(&events.into_iter().map(build).collect::<Vec<_>>()).await
}

fn class(verdict: &Verdict) -> Result<(), FailureClass> {
    verdict.as_ref().copied().map_err(|failure| failure.class())
}

/// What an engine does, until none is left. Which of them are dead.
async fn delivered_at_last(sink: &MqttSink, events: &[Event]) -> Vec<bool> {
    let mut dead = vec![None; events.len()];
    within(PLENTY, "all to have an end", async || {
        let left: Vec<_> = (0..events.len()).filter(|at| dead[*at].is_none()).collect();
        let batch: Vec<_> = left.iter().map(|at| delivery(events[*at].clone())).collect();
        for (at, verdict) in left.into_iter().zip(sink.deliver(&batch).await) {
            match class(&verdict) {
                Ok(()) => dead[at] = Some(false),
                Err(FailureClass::Dead) => dead[at] = Some(true),
                Err(FailureClass::Unavailable { .. }) => {}
                Err(other) => panic!("{other:?}: {verdict:?}"),
            }
        }
        dead.iter().all(Option::is_some)
    })
    .await;
    dead.into_iter().map(Option::unwrap).collect()
}

/// The broker says nothing of this limit, and ends the connection, or answers what is no answer.
#[test]
fn a_payload_that_ends_the_connection_is_found_and_fails_alone() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        let sink = mosquitto.sink().await;
        let event = |number: usize| {
            let event = Event::json("a", &number).unwrap();
            if number % 4 == 2 { with_payload(&event, LARGE_PAYLOAD) } else { event }
        };
        let events: Vec<_> = (0..10).map(event).collect();
        let dead = delivered_at_last(&sink, &events).await;
        let expected: Vec<_> = (0..10).map(|number| number % 4 == 2).collect();
        assert_eq!(dead, expected);
        let others: Vec<_> = (0..100).map(|number| Event::json("a", &number).unwrap()).collect();
        assert!(delivered_at_last(&sink, &others).await.iter().all(|dead| !dead));
        let ids: Vec<_> = mosquitto.arrived().await.iter().map(|event| event.id).collect();
        assert!(others.iter().all(|event| ids.contains(&event.id())));
        assert!(!ids.contains(&events[2].id()));
    });
}

/// Batches are under way side by side, and one of them has the event that ends the connection.
#[test]
fn a_payload_that_ends_the_connection_kills_no_event_of_another_batch() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        let sink = mosquitto.sink().await;
        let is_large = |batch: usize, number: usize| batch == 3 && number == 10;
        let deliver = async |batch: usize| {
            let event = |number| {
                let event = Event::json("a", &number).unwrap();
                if is_large(batch, number) { with_payload(&event, LARGE_PAYLOAD) } else { event }
            };
            let events: Vec<_> = (0..20).map(event).collect();
            delivered_at_last(&sink, &events).await
        };
        let all = join_all((0..8).map(&deliver)).await;
        for (batch, dead) in all.into_iter().enumerate() {
            let expected: Vec<_> = (0..20).map(|number| is_large(batch, number)).collect();
            assert_eq!(dead, expected, "batch {batch}");
        }
    });
}

/// Otherwise consumers would have the third before the second.
#[test]
fn a_fact_that_the_server_refuses_is_not_overtaken() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        mosquitto.change("rights", "readwrite #", "readwrite #\ntopic deny secret");
        let options = mosquitto.options();
        let link = patient(options.link);
        let options = MqttOptions { topic: "{header.to}".into(), link, ..options };
        let sink = MqttSink::start(options).await.unwrap();
        within(PLENTY, "the broker to know it", async || {
            facts_to(&sink, &["secret"]).await[0].is_err()
        })
        .await;
        let before = mosquitto.read().await.len();
        let verdicts = facts_to(&sink, &["a", "secret", "b"]).await;
        assert!(is_stopped_at_the_second(&verdicts), "{verdicts:?}");
        assert_eq!(mosquitto.read().await.len(), before + 1);
    });
}

/// Whatever else was delivered meanwhile.
#[tokio::test]
async fn what_ends_the_connection_is_found_while_other_events_flow() {
    let mut broker = Fake::start().await;
    let sink = MqttSink::start(quick(&broker)).await.unwrap();
    let deliver = |batch: &[Delivery]| {
        let (sink, batch) = (sink.clone(), batch.to_vec());
        tokio::spawn(async move { sink.deliver(&batch).await })
    };
    let healthy = async || {
        within(PLENTY, "the back-off to be over", async || sink.is_healthy()).await;
    };
    let batch = [one("poison"), one("beside")].concat();
    let unknown = deliver(&batch);
    let _poison = broker.next().await;
    broker.next().await.end_connection(PACKET_TOO_LARGE);
    assert!(unknown.await.unwrap().iter().all(is_unavailable), "it is not known which it was");
    healthy().await;

    // Side by side: nothing of these was under way.
    let others = deliver(&[one("first"), one("second")].concat());
    let under_way = async { (broker.next().await, broker.next().await) };
    let (first, second) = timeout(PLENTY, under_way).await.expect("both are sent at once");
    first.acknowledge();
    second.acknowledge();
    assert!(others.await.unwrap().iter().all(Result::is_ok));

    let again = deliver(&batch);
    let poison = broker.next().await;
    assert_eq!(poison.payload, "poison");
    poison.end_connection(PACKET_TOO_LARGE);
    let verdicts = again.await.unwrap();
    assert_eq!(class(&verdicts[0]), Err(FailureClass::Dead), "{verdicts:?}");
    assert!(is_unavailable(&verdicts[1]));
    healthy().await;
    let beside = deliver(&batch[1..]);
    broker.next().await.acknowledge();
    assert!(beside.await.unwrap()[0].is_ok());
}

fn one(text: &str) -> Vec<Delivery> {
    vec![delivery(Event::builder("a").bytes(format!(" {text}")).build().unwrap())]
}

fn sent(sink: &MqttSink, text: &'static str) -> JoinHandle<Verdict> {
    let sink = sink.clone();
    tokio::spawn(async move { sink.deliver(&one(text)).await.remove(0) })
}

fn quick(fake: &Fake) -> MqttOptions {
    let link = LinkOptions {
        deliver_within: Duration::from_secs(2),
        reopen_after: Duration::from_millis(1),
        reopen_after_most: Duration::from_millis(10),
        ..LinkOptions::default()
    };
    MqttOptions { link, ..MqttOptions::server(fake.url()) }
}

fn is_unavailable(verdict: &Verdict) -> bool {
    matches!(class(verdict), Err(FailureClass::Unavailable { .. }))
}

/// Who sends one message at a time has the connection to itself.
#[tokio::test]
async fn no_event_is_blamed_for_the_message_of_another_batch() {
    let mut broker = Fake::start().await;
    let sink = MqttSink::start(quick(&broker)).await.unwrap();
    let poison = sent(&sink, "poison");
    broker.next().await.end_connection(PACKET_TOO_LARGE);
    assert!(is_unavailable(&poison.await.unwrap()), "it is not known which it was");
    within(PLENTY, "the back-off to be over", async || sink.is_healthy()).await;

    let first = sent(&sink, "first");
    let asked = broker.next().await;
    let second = sent(&sink, "second");
    for _ in 0..100 {
        yield_now().await;
    }
    asked.acknowledge();
    assert!(first.await.unwrap().is_ok());
    let asked = broker.next().await;
    assert_eq!(asked.payload, "second");
    let _poison = sent(&sink, "poison");
    // Where both are on the connection at once, that is what kills the second.
    match timeout(Duration::from_millis(200), broker.next()).await {
        Ok(poison) => poison.end_connection(PACKET_TOO_LARGE),
        Err(_) => asked.acknowledge(),
    }
    let second = second.await.unwrap();
    assert!(second.is_ok() || is_unavailable(&second), "{second:?}");
}

/// The sink itself is no other client: a connection that it gave up is ended before the next one begins.
#[tokio::test]
async fn a_sink_that_connects_again_is_not_taken_for_another_client() {
    let mut broker = Fake::start().await;
    let sink = MqttSink::start(quick(&broker)).await.unwrap();
    let silent = sent(&sink, "silent");
    broker.next().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let beside = sent(&sink, "beside");
    broker.next().await;
    assert!(is_unavailable(&silent.await.unwrap()));
    // Over a connection of its own, while the other batch still has the first one.
    within(PLENTY, "the back-off to be over", async || sink.is_healthy()).await;
    let again = sent(&sink, "again");
    broker.next().await.acknowledge();
    assert!(again.await.unwrap().is_ok());
    let failure = beside.await.unwrap().unwrap_err();
    assert!(!failure.report().contains("mqtt.client_id"), "{}", failure.report());
}

#[test]
fn what_nobody_subscribes_to_is_done() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        let mut options =
            ClientOptions::new(SUBSCRIBER, Address::tcp("127.0.0.1", mosquitto.broker().port()));
        options.set_credentials(USER, PASSWORD).set_clean_start(true);
        let (client, mut events) = AsyncClient::builder(options).build();
        while !matches!(events.poll().await.unwrap(), Polled::Incoming(Packet::ConnAck(_))) {}
        // A session that begins anew subscribes to nothing.
        leave(&client, &mut events).await;
        let sink = mosquitto.sink().await;
        assert!(deliver(&sink, vec![Event::builder("a")]).await[0].is_ok());
    });
}

#[test]
fn what_is_retained_is_there_for_who_comes_later() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        let options = MqttOptions { retain: true, ..mosquitto.options() };
        let sink = MqttSink::start(options).await.unwrap();
        assert!(deliver(&sink, vec![Event::builder("a"), Event::builder("a")]).await[1].is_ok());
        let (_client, mut events) = mosquitto.subscribe("another").await;
        let message = loop {
            if let Polled::Incoming(Packet::Publish(message)) = events.poll().await.unwrap() {
                break message;
            }
        };
        assert!(message.retain && message.topic == "events/a");
    });
}

#[test]
fn a_topic_is_no_filter_and_none_of_the_brokers_own() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        let options = MqttOptions { topic: "{header.to}".into(), ..mosquitto.options() };
        let sink = MqttSink::start(options).await.unwrap();
        let to = |topic: &str| Event::builder("a").header("to", topic);
        // The broker ends a connection for the sake of one of the last, and does not say that.
        let batch = ["a/b", "a/+", "#", "$SYS/x", "a/c", "a/\u{ffff}", "a/\u{fdd0}"].map(to);
        let mut batch = Vec::from(batch);
        batch.push(to("a/d").header("other", "\u{1fffe}"));
        let verdicts = deliver(&sink, batch).await;
        let classes: Vec<_> = verdicts.iter().map(class).collect();
        let dead = Err(FailureClass::Dead);
        assert_eq!(classes, [Ok(()), dead, dead, dead, Ok(()), dead, dead, dead]);
    });
}

#[test]
fn a_user_who_may_not_publish_is_told_and_the_events_wait() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        let options = MqttOptions { auth: as_user(READER, PASSWORD), ..mosquitto.options() };
        let sink = MqttSink::start(options).await.unwrap();
        let verdict = deliver(&sink, vec![Event::builder("a")]).await.remove(0);
        let failure = verdict.unwrap_err();
        assert!(matches!(failure.class(), FailureClass::Unavailable { .. }), "{failure:?}");
        assert!(failure.report().contains("mqtt.auth"), "{failure:?}");
    });
}

/// Two clients with one id would end each other's connection for ever. The client does not read the short form in which
/// Mosquitto says why; this is the other.
#[tokio::test]
async fn another_client_with_the_same_id_is_told() {
    const CONNACK: [u8; 5] = [0x20, 3, 0, 0, 0];
    const SESSION_TAKEN_OVER: [u8; 4] = [0xe0, 2, 0x8e, 0];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let broker = tokio::spawn(async move {
        let mut connections = 0;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            connections += 1;
            stream.write_all(&CONNACK).await.unwrap();
            stream.write_all(&SESSION_TAKEN_OVER).await.unwrap();
            // What the client has to say, until it ends.
            tokio::spawn(async move { tokio::io::copy(&mut stream, &mut tokio::io::sink()).await });
            assert!(connections < 3, "nobody waits before the next one");
        }
    });
    let sink = MqttSink::start(MqttOptions::server(format!("mqtt://127.0.0.1:{port}")));
    let sink = sink.await.unwrap();
    within(PLENTY, "it to be told", async || {
        let verdict = deliver(&sink, vec![Event::builder("a")]).await.remove(0);
        let failure = verdict.unwrap_err();
        assert!(matches!(failure.class(), FailureClass::Unavailable { .. }), "{failure:?}");
        failure.report().contains("mqtt.client_id")
    })
    .await;
    assert!(!sink.is_healthy() && !broker.is_finished());
}

#[test]
fn cloud_events_are_carried_by_user_properties() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        let envelope = EnvelopeOptions::CloudEvents(CloudEventsOptions::binary("/shop"));
        let options = MqttOptions { envelope, ..mosquitto.options() };
        let sink = MqttSink::start(options).await.unwrap();
        assert!(deliver(&sink, vec![Event::builder("a").ordering_key("k")]).await[0].is_ok());
        let message = mosquitto.read().await.remove(0);
        let own: HashMap<_, _> = message.properties.unwrap().user_properties.into_iter().collect();
        assert_eq!(own["source"], "/shop");
        assert_eq!(own["partitionkey"], "k");
        assert_eq!(own["specversion"], "1.0");
    });
}

/// Whom a sink believes.
#[cfg(all(feature = "mqtt-tls", feature = "webhook-tls"))]
#[test]
fn over_tls_a_certificate_has_to_be_of_an_authority_that_is_trusted() {
    run(Mosquitto::start(), |mosquitto: Mosquitto| async move {
        let broker = mosquitto.broker().port();
        let start = async |host: &str, port: u16, root_certificates: Option<std::path::PathBuf>| {
            let server = format!("mqtts://{host}:{port}");
            let options = MqttOptions { server, root_certificates, ..mosquitto.options() };
            let sink = MqttSink::start(options).await.unwrap();
            deliver(&sink, vec![Event::builder("a")]).await.remove(0)
        };
        crate::tls::must_be_believed(broker, start).await;
    });
}

#[tokio::test]
async fn options_that_are_wrong_are_named() {
    let refused = async |options: MqttOptions| {
        let error = MqttSink::start(options).await.unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        error.path().to_owned()
    };
    for server in ["mqtt://me:secret@host", "http://host", "secret", "", "mqtt://host:x"] {
        assert_eq!(refused(MqttOptions::server(server)).await, "mqtt.server", "{server}");
    }
    if cfg!(not(feature = "mqtt-tls")) {
        assert_eq!(refused(MqttOptions::server("mqtts://host")).await, "mqtt.server");
    }
    let right = MqttOptions::default;
    for topic in ["", "a/+", "$SYS/a", "{typ}"] {
        assert_eq!(refused(MqttOptions { topic: topic.into(), ..right() }).await, "mqtt.topic");
    }
    let root_certificates = Some("roots.pem".into());
    let path = refused(MqttOptions { root_certificates, ..right() }).await;
    assert_eq!(path, "mqtt.root_certificates", "nobody is left to believe that this is TLS");
    for id in ["", "a\n"] {
        let client_id = Some(id.to_owned());
        assert_eq!(refused(MqttOptions { client_id, ..right() }).await, "mqtt.client_id");
    }
}

#[test]
fn options_are_read_from_files() {
    let written = serde_json::json!({
        "server": "mqtt://mqtt.example",
        "auth": { "user": "shop", "password": "secret" },
        "client_id": "shop-1",
        "topic": "shop/{type}",
        "retain": true,
    });
    let options: MqttOptions = serde_json::from_value(written).unwrap();
    assert!(!format!("{options:?}").contains("secret"));
    let expected = MqttOptions {
        auth: as_user("shop", "secret"),
        client_id: Some("shop-1".into()),
        topic: "shop/{type}".into(),
        retain: true,
        ..MqttOptions::server("mqtt://mqtt.example")
    };
    assert_eq!(options, expected);
}
