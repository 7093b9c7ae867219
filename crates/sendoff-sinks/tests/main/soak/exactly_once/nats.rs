//! Through a stream of NATS JetStream.

use std::env;
use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, HeaderMap};
use futures_util::TryStreamExt;
use sendoff_core::EventId;
use sendoff_sinks::nats::{NatsAuth, NatsOptions, NatsSink, NewStream};
use sendoff_testkit::broker::{Broker, OwnBroker, PASSWORD, USER};

use super::{BROKER, Books, killed_at_random};

const STREAM: &str = "SHOP";
/// Then a message that was not acknowledged comes again.
const UNACKNOWLEDGED: Duration = Duration::from_secs(1);
/// Messages that a consumer has at once, so that it comes to all of them before that.
const AT_ONCE: usize = 20;

async fn context(server: &str) -> Context {
    let options = ConnectOptions::with_user_and_password(USER.into(), PASSWORD.into());
    jetstream::new(options.connect(server).await.unwrap())
}

/// Not a test of its own: the process that writes and delivers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shop() {
    let Ok(server) = env::var(BROKER) else { return };
    let create = NewStream { subjects: vec!["shop.>".into()], ..NewStream::default() };
    let sink = NatsSink::start(NatsOptions {
        servers: vec![server],
        auth: NatsAuth::Password { user: USER.into(), password: PASSWORD.into() },
        create: Some(create),
        subject: "shop.{type}".into(),
        ..NatsOptions::stream(STREAM)
    });
    super::shop(sink.await.unwrap()).await;
}

/// Not a test of its own: the process that consumes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books() {
    let Ok(server) = env::var(BROKER) else { return };
    let mut books = Books::open().await;
    let stream = context(&server).await.get_stream(STREAM).await.unwrap();
    let config = pull::Config {
        durable_name: Some("billing".into()),
        ack_wait: UNACKNOWLEDGED,
        ..pull::Config::default()
    };
    let consumer = stream.get_or_create_consumer("billing", config).await.unwrap();
    let mut messages = consumer.stream().max_messages_per_batch(AT_ONCE).messages().await.unwrap();
    while let Some(message) = messages.try_next().await.unwrap() {
        books.book(id_of(message.headers.as_ref().unwrap())).await;
        message.ack().await.unwrap();
    }
}

fn id_of(headers: &HeaderMap) -> EventId {
    headers.get("sendoff-id").unwrap().as_str().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_behind_nats_each_event_has_its_effect_exactly_once() {
    let Some(broker) = OwnBroker::start(Broker::Nats) else { return };
    let server = format!("nats://127.0.0.1:{}", broker.port());
    // Before anybody consumes it.
    let subjects = vec!["shop.>".into()];
    let config = jetstream::stream::Config { name: STREAM.into(), subjects, ..Default::default() };
    context(&server).await.create_stream(config).await.unwrap();
    let account = killed_at_random("nats", server.clone()).await;
    let stream = context(&server).await.get_stream(STREAM).await.unwrap();
    let there = i64::try_from(stream.cached_info().state.messages).unwrap();
    assert_eq!(there, account.orders, "{} times some were sent again", account.unsettled);
}
