//! From a transaction to a topic of Kafka, and to whoever consumes it, with an effect that is made exactly once.
//!
//! `cargo xtask example to_kafka` talks to the mock cluster that librdkafka has; with brokers of yours
//! `KAFKA_BROKERS=localhost:9092 cargo run -p sendoff --example to_kafka --features sqlite,sink-kafka`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::{Context, Result};
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::Headers;
use rdkafka::mocking::MockCluster;
use rdkafka::{ClientConfig, Message};
use rusqlite::Transaction;
use sendoff::sinks::kafka::{KafkaOptions, KafkaSink};
use sendoff::sqlite::SqliteStore;
use sendoff::{EventId, Inbox, Outbox, Processed};

const TOPIC: &str = "sendoff-example";

/// The events of each customer are in order: they have a key, and with it a partition.
const ORDERS: [(&str, &str); 3] = [("ada", "tea"), ("bob", "milk"), ("ada", "sugar")];

pub(crate) async fn run(brokers: &str) -> Result<()> {
    let sink = KafkaSink::start(KafkaOptions {
        brokers: brokers.split(',').map(str::to_owned).collect(),
        properties: [("compression.type".to_owned(), "lz4".into())].into(),
        ..KafkaOptions::topic(TOPIC)
    })
    .await?;

    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("shop.db")).await?;
    let outbox = Outbox::builder(store.clone()).on_any_sink(sink.clone()).start().await?;
    let mut conn = store.connect()?;
    conn.execute_batch("create table orders (customer text not null, item text not null)")?;
    let mut ids = Vec::new();
    for (customer, item) in ORDERS {
        let mut tx = outbox.begin_blocking(&mut conn)?;
        tx.execute("insert into orders values (?1, ?2)", [customer, item])?;
        let event = sendoff::Event::builder("order.placed").ordering_key(customer);
        ids.push(tx.emit(event.json(&serde_json::json!({ "item": item })))?);
        tx.commit()?; // the order and its event, or neither
    }

    // Somebody who consumes it, from the beginning, with a database too: the effect and the event's id are one transaction there.
    let books = SqliteStore::open(folder.path().join("books.db")).await?;
    let (inbox, mut conn) = (Inbox::new(books.clone()), books.connect()?);
    conn.execute_batch("create table invoices (customer text not null, placed text not null)")?;
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "sendoff-example")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()?;
    consumer.subscribe(&[TOPIC])?;
    while !ids.is_empty() {
        let record = consumer.recv().await?;
        let headers = record.headers().context("a record has headers")?;
        let id = headers.iter().find(|header| header.key == "sendoff-id");
        let id = id.and_then(|header| header.value).context("an event has an id")?;
        let id: EventId = std::str::from_utf8(id)?.parse()?;
        let customer = record.key_view::<str>().context("a record has a key")??;
        let placed = record.payload_view::<str>().context("a record has a payload")??;
        let invoice = |tx: &mut Transaction<'_>| {
            tx.execute("insert into invoices values (?1, ?2)", [customer, placed])
        };
        match inbox.process_blocking(&mut conn, "billing", id, invoice)? {
            Processed::First(_) => {
                println!("partition {} {customer} {id}: invoice issued", record.partition());
            }
            // It was sent again, or this process died before the next line.
            Processed::Again => println!("{id}: it has its invoice already"),
        }
        consumer.commit_message(&record, CommitMode::Async)?; // only now
        ids.retain(|known| *known != id);
    }

    outbox.close().await;
    anyhow::ensure!(sink.close().await, "the sink was cut off"); // after whoever delivers to it
    store.close().await;
    books.close().await;
    Ok(())
}

/// Three brokers in this process.
pub(crate) async fn run_on_mock() -> Result<()> {
    let cluster = MockCluster::new(3)?;
    run(&cluster.bootstrap_servers()).await
}

#[tokio::main]
async fn main() -> Result<()> {
    match std::env::var("KAFKA_BROKERS") {
        Ok(brokers) => run(&brokers).await,
        Err(_) => run_on_mock().await,
    }
}
