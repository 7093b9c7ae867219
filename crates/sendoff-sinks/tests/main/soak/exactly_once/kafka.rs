//! Through a topic of Kafka: librdkafka's mock cluster, in the process that kills.

use std::env;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::mocking::MockCluster;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use sendoff_core::EventId;
use sendoff_sinks::kafka::{KafkaOptions, KafkaSink};

use super::{BROKER, Books, killed_at_random};

const TOPIC: &str = "shop";
const PARTITIONS: i32 = 2;
const PLENTY: Duration = Duration::from_secs(30);

/// Not a test of its own: the process that writes and delivers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shop() {
    let Ok(brokers) = env::var(BROKER) else { return };
    let brokers = brokers.split(',').map(str::to_owned).collect();
    let sink = KafkaSink::start(KafkaOptions { brokers, ..KafkaOptions::topic(TOPIC) });
    super::shop(sink.await.unwrap()).await;
}

fn consumer(brokers: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "billing")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("fetch.wait.max.ms", "10")
        .create()
        .unwrap()
}

/// Not a test of its own: the process that consumes. It takes all partitions: a group would wait for those that were
/// killed to be missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books() {
    let Ok(brokers) = env::var(BROKER) else { return };
    let mut books = Books::open().await;
    let consumer = consumer(&brokers);
    let mut from = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        from.add_partition_offset(TOPIC, partition, Offset::Stored).unwrap();
    }
    consumer.assign(&from).unwrap();
    loop {
        // It is told of connections that are lost, and does something about them by itself.
        let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) else { continue };
        books.book(id_of(&record)).await;
        consumer.commit_message(&record, CommitMode::Sync).unwrap();
    }
}

fn id_of(record: &BorrowedMessage<'_>) -> EventId {
    let header = record.headers().unwrap().iter().find(|header| header.key == "sendoff-id");
    std::str::from_utf8(header.unwrap().value.unwrap()).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_behind_kafka_each_event_has_its_effect_exactly_once() {
    let cluster = MockCluster::new(3).unwrap();
    cluster.create_topic(TOPIC, PARTITIONS, 3).unwrap();
    let brokers = cluster.bootstrap_servers();
    let account = killed_at_random("kafka", brokers.clone()).await;
    let records = (0..PARTITIONS)
        .map(|partition| consumer(&brokers).fetch_watermarks(TOPIC, partition, PLENTY).unwrap())
        .map(|(low, high)| high - low)
        .sum::<i64>();
    // Of another producer Kafka does not know what it had before.
    assert!(records >= account.orders + account.unsettled, "{records} records");
}
