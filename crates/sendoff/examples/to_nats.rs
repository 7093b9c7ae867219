//! From a transaction to a stream of NATS JetStream, and to whoever consumes it, with an effect that is made exactly once.
//!
//! `cargo xtask example to_nats`, or with a server of yours
//! `NATS_URL=nats://user:password@localhost:4222 cargo run -p sendoff --example to_nats --features sqlite,sink-nats`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::{Context, Result};
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::{ConnectOptions, ServerAddr, jetstream};
use futures_util::TryStreamExt;
use rusqlite::Transaction;
use sendoff::sinks::nats::{NatsAuth, NatsOptions, NatsSink, NewStream};
use sendoff::sqlite::SqliteStore;
use sendoff::{EventId, Inbox, Outbox, Processed};

const STREAM: &str = "SENDOFF_EXAMPLE";

pub(crate) async fn run(url: &str) -> Result<()> {
    let address: ServerAddr = url.parse()?;
    let server = format!("nats://{}:{}", address.host(), address.port());
    let (user, password) = (address.username(), address.password());
    let auth = match (user, password) {
        (Some(user), Some(password)) => {
            NatsAuth::Password { user: user.to_owned(), password: password.into() }
        }
        _ => NatsAuth::None,
    };

    // The stream is made where it is missing. Each event is a message on the subject of its type.
    let subjects = vec!["shop.>".to_owned()];
    let sink = NatsSink::start(NatsOptions {
        servers: vec![server.clone()],
        auth,
        create: Some(NewStream { subjects, ..NewStream::default() }),
        subject: "shop.{type}".to_owned(),
        ..NatsOptions::stream(STREAM)
    })
    .await?;

    // Somebody who consumes it.
    let options = match (user, password) {
        (Some(user), Some(password)) => {
            ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
        }
        _ => ConnectOptions::new(),
    };
    let context = jetstream::new(options.connect(server).await?);
    let only_new = pull::Config { deliver_policy: DeliverPolicy::New, ..pull::Config::default() };
    let consumer = context.create_consumer_on_stream(only_new, STREAM).await?;

    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("shop.db")).await?;
    let outbox = Outbox::builder(store.clone()).on_any_sink(sink.clone()).start().await?;
    let mut conn = store.connect()?;
    conn.execute_batch("create table orders (item text not null)")?;
    for item in ["tea", "milk", "sugar"] {
        let mut tx = outbox.begin_blocking(&mut conn)?;
        tx.execute("insert into orders values (?1)", [item])?;
        tx.emit(("order.placed", serde_json::json!({ "item": item })))?;
        tx.commit()?; // the order and its event, or neither
    }

    // Whoever consumes it has a database too: its effect and the event's id are one transaction there.
    let books = SqliteStore::open(folder.path().join("books.db")).await?;
    let (inbox, mut conn) = (Inbox::new(books.clone()), books.connect()?);
    conn.execute_batch("create table invoices (placed text not null)")?;
    let mut messages = consumer.messages().await?;
    let (mut issued, mut refused) = (0, 0);
    while issued + refused < 4 {
        let message = messages.try_next().await?.context("the consumer ended")?;
        let headers = message.headers.as_ref().context("a message has headers")?;
        let id: EventId =
            headers.get("sendoff-id").context("an event has an id")?.as_str().parse()?;
        let placed = String::from_utf8_lossy(&message.payload);
        let invoice =
            |tx: &mut Transaction<'_>| tx.execute("insert into invoices values (?1)", [&placed]);
        match inbox.process_blocking(&mut conn, "billing", id, invoice)? {
            Processed::First(_) => {
                issued += 1;
                println!("{} {id}: invoice issued for {placed}", message.subject);
            }
            Processed::Again => {
                refused += 1;
                println!("{} {id}: it has its invoice already", message.subject);
            }
        }
        // Only now. The first is not, as if this process had died in between: it comes again.
        let dies = issued == 1 && refused == 0;
        let ack = if dies { AckKind::Nak(None) } else { AckKind::Ack };
        message.ack_with(ack).await.map_err(anyhow::Error::from_boxed)?;
    }
    anyhow::ensure!((issued, refused) == (3, 1), "{issued} were issued");

    outbox.close().await;
    anyhow::ensure!(sink.close().await, "the sink was cut off"); // after whoever delivers to it
    store.close().await;
    books.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(&std::env::var("NATS_URL").context("NATS_URL is not set")?).await
}
