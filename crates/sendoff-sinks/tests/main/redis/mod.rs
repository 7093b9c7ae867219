//! Redis Streams, on a server of each test's own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamRangeReply};
use redis::{Cmd, FromRedisValue, cmd};
use sendoff_core::{Event, EventBuilder, FailureClass, Sink, StoredEvent, Verdict};
use sendoff_sinks::link::LinkOptions;
use sendoff_sinks::redis::{RedisAuth, RedisOptions, RedisSink, RedisWait};
use sendoff_testkit::broker::{Broker, OwnBroker, PASSWORD, READER, USER};
use sendoff_testkit::sinks::killed::in_the_middle_of;
use sendoff_testkit::sinks::{
    Arrived, Expected, Refusal, Server, SinkGround, WrongCredentials, async_trait, run,
};
use sendoff_testkit::wait::eventually;

use crate::delivery::{delivery, facts_to, is_stopped_at_the_second, patient};

sendoff_testkit::sink_suite!(Redis::start().await;
    poison refusals credentials revocation kill durable freeze);

/// Who is left when everybody else is locked out.
const ADMIN: &str = "admin";

const FULL: Refusal = Refusal { name: "no memory", expected: Expected::Unavailable };
const REPLICA: Refusal = Refusal { name: "a replica", expected: Expected::Unavailable };

struct Redis(Mutex<OwnBroker>);

impl Redis {
    async fn start() -> Option<Self> {
        Some(Self(Mutex::new(OwnBroker::start(Broker::Redis)?)))
    }

    fn broker(&self) -> MutexGuard<'_, OwnBroker> {
        self.0.lock().unwrap()
    }

    fn options(&self) -> RedisOptions {
        let link = LinkOptions {
            deliver_within: self.deadline(),
            reopen_after: Duration::from_millis(20),
            reopen_after_most: Duration::from_millis(200),
            ..LinkOptions::default()
        };
        RedisOptions {
            auth: as_user(USER, PASSWORD),
            stream: "events.{aggregate_type|all}".into(),
            link,
            ..RedisOptions::server(format!("redis://127.0.0.1:{}", self.broker().port()))
        }
    }

    /// For the test itself.
    async fn conn(&self, user: &str) -> MultiplexedConnection {
        let client = redis::Client::open(self.broker().url_of(user, PASSWORD)).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        command.query_async(&mut self.conn(USER).await).await.unwrap()
    }

    async fn tell(&self, words: &[&str]) {
        let () = self.ask(cmd(words[0]).arg(&words[1..])).await;
    }

    /// Of one stream.
    async fn entries(&self, stream: &str) -> Vec<StreamId> {
        let reply: StreamRangeReply = self.ask(cmd("XRANGE").arg(stream).arg("-").arg("+")).await;
        reply.ids
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as the option is")]
fn as_user(user: &str, password: &str) -> Option<RedisAuth> {
    Some(RedisAuth { user: Some(user.into()), password: password.into() })
}

#[async_trait]
impl SinkGround for Redis {
    type Sink = RedisSink;

    async fn sink(&self) -> RedisSink {
        RedisSink::start(self.options()).await.unwrap()
    }

    async fn close(&self, sink: &RedisSink) -> bool {
        sink.close().await
    }

    async fn arrived(&self) -> Vec<Arrived> {
        let mut all = self.entries("events.all").await;
        all.extend(self.entries("events.order").await);
        all.iter().map(arrived).collect()
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// A key without control characters is all that it asks for.
    async fn poison(&self, event: &Event) -> Event {
        let mut stored = AsRef::<StoredEvent>::as_ref(event).clone();
        stored.aggregate_type = "order\n".into();
        Event::restore(stored).unwrap()
    }

    fn refusals(&self) -> Vec<Refusal> {
        vec![FULL, REPLICA]
    }

    async fn refuse(&self, refusal: &Refusal) {
        match refusal.name {
            name if name == FULL.name => self.tell(&["CONFIG", "SET", "maxmemory", "1"]).await,
            _ => self.tell(&["REPLICAOF", "127.0.0.1", "1"]).await,
        }
    }

    async fn allow(&self) {
        self.tell(&["CONFIG", "SET", "maxmemory", "0"]).await;
        self.tell(&["REPLICAOF", "NO", "ONE"]).await;
    }

    fn server(&self) -> &dyn Server {
        &self.0
    }

    async fn wrong_credentials(&self) -> WrongCredentials {
        let secret = "not-the-password".to_owned();
        let options = RedisOptions { auth: as_user(USER, &secret), ..self.options() };
        let error = RedisSink::start(options).await.err();
        let error = error.map(|error| format!("{} {error:?}", sendoff_core::report(&error)));
        WrongCredentials { error, path: "redis.auth", secret }
    }

    async fn revoke(&self) {
        let password = format!(">{PASSWORD}");
        self.tell(&["ACL", "SETUSER", ADMIN, "on", &password, "~*", "+@all"]).await;
        let mut admin = self.conn(ADMIN).await;
        let mut user = cmd("ACL");
        user.arg(&["SETUSER", USER, "resetpass", ">another"]);
        user.exec_async(&mut admin).await.unwrap();
        let mut kill = cmd("CLIENT");
        kill.arg(&["KILL", "USER", USER]).exec_async(&mut admin).await.unwrap();
    }

    async fn restore(&self) {
        let mut user = cmd("ACL");
        user.arg(&["SETUSER", USER, &format!(">{PASSWORD}")]);
        user.exec_async(&mut self.conn(ADMIN).await).await.unwrap();
    }
}

fn arrived(entry: &StreamId) -> Arrived {
    let field = |name: &str| entry.get::<String>(name);
    let fields: HashMap<&str, String> = entry
        .map
        .keys()
        .filter(|name| *name != "data")
        .map(|name| (&**name, field(name).unwrap()))
        .collect();
    let own = fields.iter().map(|(name, value)| {
        (name.strip_prefix("header.").unwrap_or(name).to_owned(), value.clone())
    });
    Arrived {
        id: fields["sendoff-id"].parse().unwrap(),
        event_type: fields["sendoff-type"].clone(),
        payload: entry.get("data").unwrap(),
        headers: own.collect::<BTreeMap<_, _>>(),
        key: field("sendoff-key"),
        content_type: field("content-type"),
    }
}

async fn deliver(sink: &RedisSink, events: usize) -> Vec<Verdict> {
    let build = |_| delivery(EventBuilder::bytes(Event::builder("a"), "1").build().unwrap());
    sink.deliver(&(0..events).map(build).collect::<Vec<_>>()).await
}

fn is_unavailable(verdict: &Verdict) -> bool {
    let class = verdict.as_ref().map_err(|failure| failure.class());
    matches!(class, Err(FailureClass::Unavailable { .. }))
}

/// Faults 1, 8: what is there twice has the same id and the same bytes.
#[test]
fn killed_in_the_middle_of_20_000_events_none_is_lost() {
    run(Redis::start(), |redis: Redis| async move {
        let account = in_the_middle_of(20_000, &redis).await;
        assert!(account.sent_again > 0, "{account}");
    });
}

#[test]
fn a_stream_is_kept_about_as_long_as_it_may_be() {
    run(Redis::start(), |redis: Redis| async move {
        let options = RedisOptions { max_entries: Some(100), ..redis.options() };
        let sink = RedisSink::start(options).await.unwrap();
        assert!(deliver(&sink, 2_500).await.iter().all(Result::is_ok));
        let left = redis.entries("events.all").await.len();
        assert!((100..1_000).contains(&left), "{left}");
    });
}

#[test]
fn what_too_few_replicas_have_is_not_done() {
    run(Redis::start(), |redis: Redis| async move {
        let wait = Some(RedisWait { replicas: 1, within: Duration::from_millis(50) });
        let sink = RedisSink::start(RedisOptions { wait, ..redis.options() }).await.unwrap();
        assert!(deliver(&sink, 3).await.iter().all(is_unavailable));
        assert!(sink.is_healthy(), "the server is there");
    });
}

/// Otherwise consumers would have the third before the second.
#[test]
fn a_fact_that_the_server_refuses_is_not_overtaken() {
    run(Redis::start(), |redis: Redis| async move {
        redis.tell(&["SET", "text", "1"]).await;
        let link = patient(redis.options().link);
        let options = || RedisOptions { stream: "{header.to}".into(), link, ..redis.options() };
        let sink = RedisSink::start(options()).await.unwrap();
        let places = ["events.all", "text", "events.all"];
        let verdicts = facts_to(&sink, &places).await;
        assert!(is_stopped_at_the_second(&verdicts), "{verdicts:?}");
        assert_eq!(redis.arrived().await.len(), 1);

        let link = LinkOptions { facts_side_by_side: true, ..link };
        let sink = RedisSink::start(RedisOptions { link, ..options() }).await.unwrap();
        let verdicts = facts_to(&sink, &places).await;
        assert!(matches!(&verdicts[..], [Ok(()), Err(_), Ok(())]), "{verdicts:?}");
        assert_eq!(redis.arrived().await.len(), 3);
    });
}

#[test]
fn what_a_replica_answers_for_is_done_and_nothing_while_it_is_silent() {
    run(Redis::start(), |redis: Redis| async move {
        let Some(replica) = Redis::start().await else { return };
        redis.tell(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
        replica.tell(&["CONFIG", "SET", "masteruser", USER, "masterauth", PASSWORD]).await;
        let port = redis.broker().port().to_string();
        replica.tell(&["REPLICAOF", "127.0.0.1", &port]).await;
        let wait = Some(RedisWait { replicas: 1, within: Duration::from_millis(200) });
        let sink = RedisSink::start(RedisOptions { wait, ..redis.options() }).await.unwrap();
        let answers = async || deliver(&sink, 3).await.iter().all(Result::is_ok);
        eventually("the replica to follow", answers).await;
        let there = redis.entries("events.all").await.len();
        assert_eq!(replica.entries("events.all").await.len(), there);

        replica.broker().freeze();
        assert!(deliver(&sink, 3).await.iter().all(is_unavailable));
        assert!(sink.is_healthy(), "the server is there");
        replica.broker().thaw();
        eventually("the replica to answer again", answers).await;
    });
}

#[test]
fn what_is_no_stream_and_who_may_not_write_are_misconfigured() {
    run(Redis::start(), |redis: Redis| async move {
        redis.tell(&["SET", "text", "1"]).await;
        let options = RedisOptions { stream: "text".into(), ..redis.options() };
        assert_eq!(RedisSink::start(options).await.unwrap_err().path(), "redis.stream");
        let wrong = async |options| {
            let sink = RedisSink::start(options).await.unwrap();
            let verdicts = deliver(&sink, 1).await;
            assert!(is_unavailable(&verdicts[0]), "{verdicts:?}");
            verdicts.into_iter().next().unwrap().unwrap_err().report()
        };
        let options = RedisOptions { stream: "{header.x|text}".into(), ..redis.options() };
        assert!(wrong(options).await.contains("redis.stream"));
        let reader = RedisOptions { auth: as_user(READER, PASSWORD), ..redis.options() };
        assert!(wrong(reader).await.contains("redis.auth"));
        let nobody = RedisOptions { auth: None, ..redis.options() };
        assert_eq!(RedisSink::start(nobody).await.unwrap_err().path(), "redis.auth");
    });
}

#[tokio::test]
async fn options_that_are_wrong_are_named() {
    let refused = async |options: RedisOptions| {
        let error = RedisSink::start(options).await.unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        error.path().to_owned()
    };
    for server in ["redis://me:secret@host", "redis://:secret@host", "http://host", "secret", ""] {
        assert_eq!(refused(RedisOptions::server(server)).await, "redis.server");
    }
    let right = RedisOptions::default;
    assert_eq!(refused(RedisOptions { stream: String::new(), ..right() }).await, "redis.stream");
    let max_entries = Some(0);
    assert_eq!(refused(RedisOptions { max_entries, ..right() }).await, "redis.max_entries");
    let wait = |replicas, within| RedisOptions {
        wait: Some(RedisWait { replicas, within: Duration::from_secs(within) }),
        ..right()
    };
    assert_eq!(refused(wait(0, 1)).await, "redis.wait.replicas");
    assert_eq!(refused(wait(1, 0)).await, "redis.wait.within");
    assert_eq!(refused(wait(1, 60)).await, "redis.wait.within");
}
