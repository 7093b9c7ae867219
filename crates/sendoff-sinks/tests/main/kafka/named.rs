//! The suite on the broker that `SENDOFF_KAFKA_URL` names (`host:port`, several with commas): a topic for each test.

use std::io::Write;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

use super::*;

sendoff_testkit::sink_suite!(Named::start().await; poison; without
    refusals = "the broker is somebody else's", credentials = "the broker is somebody else's",
    revocation = "the broker is somebody else's", kill = "the broker is somebody else's",
    durable = "the broker is somebody else's", freeze = "the broker is somebody else's");

struct Named {
    brokers: Vec<String>,
    topic: String,
}

impl Named {
    async fn start() -> Option<Self> {
        let named = std::env::var("SENDOFF_KAFKA_URL").ok().filter(|url| !url.is_empty());
        let Some(url) = named else {
            // Not `eprintln!`, which a test runner may capture.
            let _ = writeln!(std::io::stderr(), "SKIPPED: SENDOFF_KAFKA_URL names no broker");
            return None;
        };
        let url = url.strip_prefix("kafka://").unwrap_or(&url);
        let brokers: Vec<_> = url.split(',').map(str::to_owned).collect();
        let id = Event::builder("a").bytes("").build().unwrap().id();
        let topic = format!("sendoff-test-{id}");
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", brokers.join(",")).create().unwrap();
        let new = NewTopic::new(&topic, 4, TopicReplication::Fixed(1));
        let made = admin.create_topics([&new], &AdminOptions::new()).await.unwrap();
        assert!(made[0].is_ok(), "{made:?}");
        Some(Self { brokers, topic })
    }
}

#[async_trait]
impl SinkGround for Named {
    type Sink = KafkaSink;

    async fn sink(&self) -> KafkaSink {
        let options = options(self.brokers.clone());
        let link = LinkOptions { connect_within: self.deadline(), ..options.link };
        let link = LinkOptions { deliver_within: self.deadline(), ..link };
        let topic = self.topic.clone();
        KafkaSink::start(KafkaOptions { topic, link, ..options }).await.unwrap()
    }

    async fn close(&self, sink: &KafkaSink) -> bool {
        sink.close().await
    }

    async fn arrived(&self) -> Vec<Arrived> {
        let records = tokio::task::block_in_place(|| read(&self.brokers, &self.topic));
        records.iter().map(arrived).collect()
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(20)
    }

    fn payload_bytes(&self) -> usize {
        MAX_MESSAGE - 2_048
    }

    async fn poison(&self, event: &Event) -> Event {
        too_large(event)
    }
}
