//! NATS JetStream, on a server of each test's own.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_nats::ConnectOptions;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use async_nats::jetstream::{self, Context};
use futures_util::TryStreamExt;
use sendoff_core::journal::{Fact, Topic};
use sendoff_core::{Event, EventBuilder, FailureClass, Sink, StoredEvent, Verdict};
use sendoff_engine::journal::publish::{Publishing, Which};
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_sinks::envelope::{CloudEventsOptions, EnvelopeOptions};
use sendoff_sinks::link::LinkOptions;
use sendoff_sinks::nats::{NatsAuth, NatsOptions, NatsSink, NewStream};
use sendoff_testkit::broker::{Broker, OwnBroker, PASSWORD, READER, USER};
use sendoff_testkit::logs::Lines;
use sendoff_testkit::sinks::killed::in_the_middle_of;
use sendoff_testkit::sinks::{
    Arrived, Expected, Refusal, Server, SinkGround, WrongCredentials, async_trait, run,
};
use sendoff_testkit::wait::within;
use tracing::Level;

use crate::delivery::{delivery, facts_to, is_stopped_at_the_second, patient};

sendoff_testkit::sink_suite!(Nats::start().await;
    poison refusals credentials revocation kill durable freeze);

const STREAM: &str = "EVENTS";
const PLENTY: Duration = Duration::from_secs(60);
/// What a server takes unless it is told otherwise, headers included.
const MAX_PAYLOAD: usize = 1024 * 1024;

const FULL: Refusal = Refusal { name: "a full stream", expected: Expected::Unavailable };
const MOVED: Refusal =
    Refusal { name: "a stream that lost the subject", expected: Expected::Unavailable };

struct Nats(Mutex<OwnBroker>);

impl Nats {
    async fn start() -> Option<Self> {
        let nats = Self(Mutex::new(OwnBroker::start(Broker::Nats)?));
        nats.context().await.create_stream(config()).await.unwrap();
        Some(nats)
    }

    fn broker(&self) -> MutexGuard<'_, OwnBroker> {
        self.0.lock().unwrap()
    }

    fn servers(&self) -> Vec<String> {
        vec![format!("nats://127.0.0.1:{}", self.broker().port())]
    }

    fn options(&self) -> NatsOptions {
        let link = LinkOptions {
            deliver_within: self.deadline(),
            reopen_after: Duration::from_millis(20),
            reopen_after_most: Duration::from_millis(200),
            ..LinkOptions::default()
        };
        let auth = as_user(USER, PASSWORD);
        NatsOptions { servers: self.servers(), auth, link, ..NatsOptions::stream(STREAM) }
    }

    /// For the test itself.
    async fn context(&self) -> Context {
        let servers = self.servers();
        let options = ConnectOptions::with_user_and_password(USER.into(), PASSWORD.into());
        jetstream::new(options.connect(servers[0].as_str()).await.unwrap())
    }

    async fn update(&self, config: Config) {
        self.context().await.update_stream(config).await.unwrap();
    }

    /// Changes the password of everybody, and comes back when the server knows it.
    async fn change_password(&self, from: &str, to: &str) {
        let settings = self.broker().folder().join("nats.conf");
        let text = fs::read_to_string(&settings).unwrap().replace(from, to);
        fs::write(&settings, text).unwrap();
        self.broker().reload();
        let server = self.servers().remove(0);
        let begun = Instant::now();
        let connect = || ConnectOptions::with_user_and_password(USER.into(), to.into());
        while connect().connect(server.as_str()).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the server does not know it");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn as_user(user: &str, password: &str) -> NatsAuth {
    NatsAuth::Password { user: user.into(), password: password.into() }
}

fn config() -> Config {
    Config {
        name: STREAM.into(),
        subjects: vec!["events.>".into()],
        duplicate_window: Duration::from_secs(120),
        ..Config::default()
    }
}

#[async_trait]
impl SinkGround for Nats {
    type Sink = NatsSink;

    async fn sink(&self) -> NatsSink {
        NatsSink::start(self.options()).await.unwrap()
    }

    async fn close(&self, sink: &NatsSink) -> bool {
        sink.close().await
    }

    async fn arrived(&self) -> Vec<Arrived> {
        messages(&self.context().await).await.iter().map(arrived).collect()
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn payload_bytes(&self) -> usize {
        MAX_PAYLOAD - 2_048
    }

    fn drops_duplicates(&self) -> bool {
        true
    }

    async fn poison(&self, event: &Event) -> Event {
        let mut stored = AsRef::<StoredEvent>::as_ref(event).clone();
        stored.payload = vec![b'x'; MAX_PAYLOAD].into();
        Event::restore(stored).unwrap()
    }

    fn refusals(&self) -> Vec<Refusal> {
        vec![FULL, MOVED]
    }

    async fn refuse(&self, refusal: &Refusal) {
        let changed = match refusal.name {
            name if name == FULL.name => {
                Config { max_bytes: 50_000, discard: DiscardPolicy::New, ..config() }
            }
            _ => Config { subjects: vec!["others.>".into()], ..config() },
        };
        self.update(changed).await;
    }

    async fn allow(&self) {
        self.update(config()).await;
    }

    fn server(&self) -> &dyn Server {
        &self.0
    }

    async fn wrong_credentials(&self) -> WrongCredentials {
        let secret = "not-the-password".to_owned();
        let options = NatsOptions { auth: as_user(USER, &secret), ..self.options() };
        let error = NatsSink::start(options).await.err();
        let error = error.map(|error| format!("{} {error:?}", sendoff_core::report(&error)));
        WrongCredentials { error, path: "nats.auth", secret }
    }

    async fn revoke(&self) {
        self.change_password(PASSWORD, "another").await;
    }

    async fn restore(&self) {
        self.change_password("another", PASSWORD).await;
    }
}

/// All that the stream has, in its order.
async fn messages(context: &Context) -> Vec<jetstream::Message> {
    let mut stream = context.get_stream(STREAM).await.unwrap();
    let count = stream.info().await.unwrap().state.messages;
    if count == 0 {
        return Vec::new();
    }
    let config = pull::Config { ack_policy: AckPolicy::None, ..pull::Config::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let count = usize::try_from(count).unwrap();
    let messages = consumer.fetch().max_messages(count).messages().await.unwrap();
    let messages: Vec<_> = messages.try_collect().await.unwrap();
    assert_eq!(messages.len(), count, "all of them are read");
    messages
}

fn arrived(message: &jetstream::Message) -> Arrived {
    let headers = message.headers.as_ref().unwrap();
    let header = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
    let own = headers.iter().map(|(name, values)| (name.to_string(), values[0].to_string()));
    let message_id = format!("{}/{}", header("sendoff-id").unwrap(), message.subject);
    assert_eq!(header("Nats-Msg-Id"), Some(message_id));
    Arrived {
        id: header("sendoff-id").unwrap().parse().unwrap(),
        event_type: header("sendoff-type").unwrap(),
        payload: message.payload.to_vec(),
        headers: own.collect(),
        key: header("sendoff-key"),
        content_type: header("content-type"),
    }
}

async fn deliver(sink: &NatsSink, events: Vec<EventBuilder>) -> Vec<Verdict> {
    let build = |event: EventBuilder| delivery(event.bytes("1").build().unwrap());
    sink.deliver(&events.into_iter().map(build).collect::<Vec<_>>()).await
}

/// Faults 1, 8: JetStream drops what comes twice.
#[test]
fn killed_in_the_middle_of_20_000_events_each_is_there_once() {
    run(Nats::start(), |nats: Nats| async move {
        let account = in_the_middle_of(20_000, &nats).await;
        assert!(account.sent_again > 0, "{account}");
    });
}

/// Faults 1, 8, and J4: the whole way of facts, by a publisher, to a server that is killed three times on it.
#[test]
fn behind_a_publisher_facts_are_there_once_and_in_exact_order_however_often_it_is_killed() {
    const FACTS: usize = 3_000;
    run(Nats::start(), |nats: Nats| async move {
        let journal = Journal::new(MemoryJournal::new());
        for _ in 0..FACTS / 1_000 {
            let facts = (0..1_000).map(|_| Fact::builder(("moved", "{}")).build().unwrap());
            journal.append(facts.collect::<Vec<_>>()).await.unwrap();
        }
        let all = Topic::builder("everything").build().unwrap();
        let sink = nats.sink().await;
        let publisher = Arc::new(sink.clone());
        let node = Publishing::builder(&journal).pair(&all, publisher).start().await.unwrap();
        let passed = async || {
            let cursors = journal.publishers().cursors(&Which::all()).await.unwrap();
            cursors.first().map_or(0, |cursor| cursor.position.get())
        };
        for kill in 1..=3 {
            within(PLENTY, "facts that flow", async || passed().await >= kill * 500).await;
            nats.server().kill().await;
            assert!(passed().await < FACTS as u64, "it is killed on the way");
            nats.server().start().await;
        }
        within(2 * PLENTY, "the last", async || passed().await == FACTS as u64).await;
        node.close().await;
        nats.close(&sink).await;
        let position = |message: &jetstream::Message| {
            let headers = message.headers.as_ref().unwrap();
            headers.get("sendoff-position").unwrap().as_str().parse().unwrap()
        };
        let there: Vec<u64> = messages(&nats.context().await).await.iter().map(position).collect();
        assert_eq!(there, (1..=FACTS as u64).collect::<Vec<_>>());
    });
}

#[test]
fn a_stream_that_is_missing_is_an_error_or_made() {
    run(Nats::start(), |nats: Nats| async move {
        let refused = async |options| NatsSink::start(options).await.unwrap_err().path().to_owned();
        let missing = || NatsOptions { stream: "MISSING".into(), ..nats.options() };
        assert_eq!(refused(missing()).await, "nats.stream");
        let create = |subject: &str| {
            Some(NewStream { subjects: vec![subject.into()], ..NewStream::default() })
        };
        // Another stream has that subject.
        let taken = NatsOptions { create: create("events.a"), ..missing() };
        assert_eq!(refused(taken).await, "nats.create");
        let made = NatsOptions {
            create: create("made.>"),
            subject: "made.{type}".into(),
            duplicate_window: Duration::from_secs(600),
            ..missing()
        };
        let sink = NatsSink::start(made).await.unwrap();
        assert!(deliver(&sink, vec![Event::builder("a")]).await[0].is_ok());
        let mut made = nats.context().await.get_stream("MISSING").await.unwrap();
        let info = made.info().await.unwrap();
        assert_eq!(info.state.messages, 1);
        assert_eq!(info.config.duplicate_window, Duration::from_secs(600));
        assert_eq!(info.config.discard, DiscardPolicy::New);
    });
}

#[test]
fn a_subject_outside_of_the_stream_is_found_at_the_start_or_fails_alone() {
    run(Nats::start(), |nats: Nats| async move {
        for subject in ["others", "others.{type}"] {
            let options = NatsOptions { subject: subject.into(), ..nats.options() };
            assert_eq!(NatsSink::start(options).await.unwrap_err().path(), "nats.subject");
        }
        let options = NatsOptions { subject: "{header.to}".into(), ..nats.options() };
        let sink = NatsSink::start(options).await.unwrap();
        let to = |subject: &str| Event::builder("a").header("to", subject);
        let batch = ["events.a", "others.a", "events.b", "$JS.API.INFO", "events.*", "events.c"];
        let verdicts = deliver(&sink, batch.map(to).into()).await;
        let class = |at: usize| verdicts[at].as_ref().map_err(|failure| failure.class());
        assert!([0, 2, 5].iter().all(|at| verdicts[*at].is_ok()), "{verdicts:?}");
        assert_eq!(class(1), Err(FailureClass::Retry));
        assert_eq!((class(3), class(4)), (Err(FailureClass::Dead), Err(FailureClass::Dead)));
        assert!(sink.is_healthy());
    });
}

/// What an event carries is no instruction to the server.
#[test]
fn headers_of_an_event_do_not_steer_the_server() {
    run(Nats::start(), |nats: Nats| async move {
        let sink = nats.sink().await;
        let steered = || {
            let event = Event::builder("a").header("nats-msg-id", "the same");
            event.header("Nats-Expected-Last-Sequence", "99").header("NATS-TTL", "1s")
        };
        let verdicts = deliver(&sink, vec![steered(), steered()]).await;
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
        assert_eq!(nats.arrived().await.len(), 2);
    });
}

/// Otherwise consumers would have the third before the second.
#[test]
fn a_fact_that_the_server_refuses_is_not_overtaken() {
    run(Nats::start(), |nats: Nats| async move {
        let options = nats.options();
        let link = patient(options.link);
        let options = NatsOptions { subject: "{header.to}".into(), link, ..options };
        let sink = NatsSink::start(options).await.unwrap();
        let verdicts = facts_to(&sink, &["events.a", "others.a", "events.b"]).await;
        assert!(is_stopped_at_the_second(&verdicts), "{verdicts:?}");
        assert_eq!(nats.arrived().await.len(), 1);
    });
}

/// What somebody has no right to is its own trouble, where others have other subjects.
#[test]
fn a_subject_that_the_user_has_no_right_to_holds_back_no_other_and_may_be_granted() {
    run(Nats::start(), |nats: Nats| async move {
        let settings = nats.broker().folder().join("nats.conf");
        let change = |from: &str, to: &str| {
            let known = fs::read_to_string(&settings).unwrap();
            assert!(known.contains(from), "{known}");
            fs::write(&settings, known.replace(from, to)).unwrap();
            nats.broker().reload();
        };
        let may_all = format!("{{ user: {USER}, password: \"{PASSWORD}\" }}");
        let rights = "permissions: { publish: { allow: [\">\"], deny: [\"events.secret\"] } }";
        let may_some = format!("{{ user: {USER}, password: \"{PASSWORD}\", {rights} }}");
        change(&may_all, &may_some);
        let options = NatsOptions { subject: "{header.to}".into(), ..nats.options() };
        let sink = NatsSink::start(options).await.unwrap();
        let to = |subject: &str| Event::builder("a").header("to", subject);
        let secret = async || deliver(&sink, vec![to("events.secret")]).await.remove(0);
        within(PLENTY, "the server to know it", async || secret().await.is_err()).await;
        for _ in 0..3 {
            let batch = ["events.a", "events.secret", "events.b", "events.secret"];
            let verdicts = deliver(&sink, batch.map(to).into()).await;
            assert!([0, 2].iter().all(|at| verdicts[*at].is_ok()), "{verdicts:?}");
            for at in [1, 3] {
                let failure = verdicts[at].as_ref().unwrap_err();
                assert!(matches!(failure.class(), FailureClass::Unavailable { .. }), "{failure:?}");
                assert!(failure.report().contains("nats.auth"), "{failure:?}");
            }
            assert!(sink.is_healthy(), "the connection is kept");
        }
        change(&may_some, &may_all);
        within(PLENTY, "the right to be noticed", async || secret().await.is_ok()).await;
    });
}

/// The server tells that to nobody in particular, and sends no answer.
#[test]
fn a_user_who_may_not_publish_is_told_and_the_events_wait() {
    run(Nats::start(), |nats: Nats| async move {
        let options = NatsOptions { auth: as_user(READER, PASSWORD), ..nats.options() };
        let sink = NatsSink::start(options).await.unwrap();
        let begun = Instant::now();
        for verdict in deliver(&sink, vec![Event::builder("a"), Event::builder("b")]).await {
            let failure = verdict.unwrap_err();
            assert!(matches!(failure.class(), FailureClass::Unavailable { .. }), "{failure:?}");
            assert!(failure.report().contains("nats.auth"), "{failure:?}");
        }
        assert!(begun.elapsed() < nats.deadline(), "nobody waits for an answer");
    });
}

#[test]
fn cloud_events_are_carried_by_headers() {
    run(Nats::start(), |nats: Nats| async move {
        let envelope = EnvelopeOptions::CloudEvents(CloudEventsOptions::binary("/shop"));
        let sink = NatsSink::start(NatsOptions { envelope, ..nats.options() }).await.unwrap();
        assert!(deliver(&sink, vec![Event::builder("a").ordering_key("k")]).await[0].is_ok());
        let messages = messages(&nats.context().await).await;
        let header = |name: &str| messages[0].headers.as_ref()?.get(name).map(|v| v.as_str());
        assert_eq!(header("ce-source"), Some("/shop"));
        assert_eq!(header("ce-partitionkey"), Some("k"));
        let message_id = format!("{}/{}", header("ce-id").unwrap(), messages[0].subject);
        assert_eq!(header("Nats-Msg-Id"), Some(&*message_id));
    });
}

#[tokio::test]
async fn a_duplicate_window_that_is_short_is_said() {
    let Some(nats) = Nats::start().await else { return };
    let (log, _guard) = Lines::keep(Level::WARN);
    let sink = nats.sink().await;
    assert_eq!(log.with("duplicate window"), Vec::<String>::new());
    sink.close().await;
    let duplicate_window = Duration::from_mins(10);
    let sink = NatsSink::start(NatsOptions { duplicate_window, ..nats.options() }).await.unwrap();
    let said = log.with("duplicate window");
    assert!(
        matches!(&said[..], [said] if said.contains("120s") && said.contains("600s")),
        "{said:?}"
    );
    sink.close().await;
}

#[tokio::test]
async fn options_that_are_wrong_are_named() {
    let refused = async |options: NatsOptions| {
        let error = NatsSink::start(options).await.unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        error.path().to_owned()
    };
    let right = || NatsOptions::stream(STREAM);
    let servers = |server: &str| NatsOptions { servers: vec![server.into()], ..right() };
    assert_eq!(refused(NatsOptions { servers: Vec::new(), ..right() }).await, "nats.servers");
    for server in ["nats://me:secret@host", "http://host", "secret host", "ws://host"] {
        assert_eq!(refused(servers(server)).await, "nats.servers");
    }
    for stream in ["", "a.b", "a b", "*"] {
        assert_eq!(refused(NatsOptions::stream(stream)).await, "nats.stream");
    }
    let domain = Some("a.b".into());
    assert_eq!(refused(NatsOptions { domain, ..right() }).await, "nats.domain");
    let create = Some(NewStream::default());
    assert_eq!(refused(NatsOptions { create, ..right() }).await, "nats.create.subjects");
    assert_eq!(refused(NatsOptions { subject: "a.*".into(), ..right() }).await, "nats.subject");
    let duplicate_window = Duration::ZERO;
    let window = NatsOptions { duplicate_window, ..right() };
    assert_eq!(refused(window).await, "nats.duplicate_window");
}

#[test]
fn options_are_read_from_files() {
    let written = serde_json::json!({
        "servers": ["tls://nats.example"],
        "auth": { "password": { "user": "shop", "password": "secret" } },
        "stream": "SHOP",
        "create": { "subjects": ["shop.>"], "max_age": "7d" },
        "subject": "shop.{type}",
        "duplicate_window": "1h",
    });
    let options: NatsOptions = serde_json::from_value(written).unwrap();
    assert!(!format!("{options:?}").contains("secret"));
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    let new =
        NewStream { subjects: vec!["shop.>".into()], max_age: Some(week), ..NewStream::default() };
    let expected = NatsOptions {
        servers: vec!["tls://nats.example".into()],
        auth: as_user("shop", "secret"),
        create: Some(new),
        subject: "shop.{type}".into(),
        duplicate_window: Duration::from_secs(3_600),
        ..NatsOptions::stream("SHOP")
    };
    assert_eq!(options, expected);
}

/// A fact of two topics, each of which has a publisher to a subject of its own: the stream has it on both.
#[test]
fn what_two_sinks_put_on_two_subjects_of_one_stream_is_on_both() {
    run(Nats::start(), |nats: Nats| async move {
        let to = |subject: &str| NatsOptions { subject: subject.into(), ..nats.options() };
        let wallets = NatsSink::start(to("events.wallets.{type}")).await.unwrap();
        let audit = NatsSink::start(to("events.audit.{type}")).await.unwrap();
        let fact = [delivery(Event::builder("opened").bytes("1").build().unwrap())];
        // A second time, as after an answer that was lost: that is dropped.
        for _ in 0..2 {
            assert!(
                wallets.deliver(&fact).await[0].is_ok() && audit.deliver(&fact).await[0].is_ok()
            );
        }
        let found = messages(&nats.context().await).await;
        let subjects: Vec<_> = found.iter().map(|message| message.subject.to_string()).collect();
        assert_eq!(subjects, ["events.wallets.opened", "events.audit.opened"]);
    });
}
