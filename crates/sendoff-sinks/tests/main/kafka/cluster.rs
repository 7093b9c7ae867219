//! The mock cluster, and reading back what brokers have.

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::OwnedMessage;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer};
use rdkafka::{Offset, TopicPartitionList};
use sendoff_testkit::sinks::{Server, async_trait};

const BROKERS: i32 = 3;
const PLENTY: Duration = Duration::from_secs(30);
/// Longer than any sink waits.
const FROZEN: Duration = Duration::from_secs(600);

/// Three brokers in this process, which the client of a producer runs.
pub(super) struct Cluster(BaseProducer);

impl Cluster {
    pub(super) fn start() -> Self {
        let mut config = ClientConfig::new();
        config.set("test.mock.num.brokers", BROKERS.to_string());
        Self(config.create().unwrap())
    }

    pub(super) fn mock(&self) -> MockCluster<'_, DefaultProducerContext> {
        self.0.client().mock_cluster().unwrap()
    }

    pub(super) fn brokers(&self) -> Vec<String> {
        self.mock().bootstrap_servers().split(',').map(str::to_owned).collect()
    }

    fn each(&self, act: impl Fn(&MockCluster<'_, DefaultProducerContext>, i32)) {
        (1..=BROKERS).for_each(|broker| act(&self.mock(), broker));
    }
}

/// Brokers that are down refuse connections, and come back with what they had.
#[async_trait]
impl Server for Cluster {
    async fn kill(&self) {
        self.each(|mock, broker| mock.broker_down(broker).unwrap());
    }

    async fn start(&self) {
        self.each(|mock, broker| mock.broker_up(broker).unwrap());
    }

    async fn freeze(&self) {
        self.each(|mock, broker| mock.broker_round_trip_time(broker, FROZEN).unwrap());
    }

    async fn thaw(&self) {
        self.each(|mock, broker| mock.broker_round_trip_time(broker, Duration::ZERO).unwrap());
    }
}

/// All that a topic has, partition by partition, each in its order.
pub(super) fn read(brokers: &[String], topic: &str) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers.join(","))
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "10")
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), PLENTY).unwrap();
    let partitions = metadata.topics()[0].partitions().iter().map(|partition| partition.id());
    let (mut all, deadline) = (Vec::new(), Instant::now() + PLENTY);
    for partition in partitions {
        let mut assigned = TopicPartitionList::new();
        assigned.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        consumer.assign(&assigned).unwrap();
        // To the end that a fetch tells of. Asked for by itself it is not the same with every broker: Tansu's lags.
        loop {
            assert!(Instant::now() < deadline, "{partition}: {} were read", all.len());
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(record)) => all.push(record.detach()),
                Some(Err(KafkaError::PartitionEOF(of))) if of == partition => break,
                // Errors are told of brokers that are down, also while others have what is read.
                Some(Err(_)) | None => {}
            }
        }
    }
    all
}
