//! Kafka by rdkafka.

use anyhow::Result;
use async_trait::async_trait;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, FutureProducer, FutureRecord, Producer};

use super::{ByHand, Outgoing};

pub(crate) const TOPIC: &str = "bench";

/// Three brokers in this process, which the client of a producer runs.
pub(crate) struct Cluster(BaseProducer);

impl Cluster {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self(ClientConfig::new().set("test.mock.num.brokers", "3").create()?))
    }

    pub(crate) fn brokers(&self) -> Option<String> {
        Some(self.0.client().mock_cluster()?.bootstrap_servers())
    }
}

/// A producer.
pub(crate) struct Kafka {
    producer: FutureProducer,
}

impl Kafka {
    /// With the promises of the sink, and like it without a pause before each request, in which no more comes of a batch that
    /// is handed over as a whole: with one, the sink would look better than it is.
    pub(crate) fn connect(brokers: &str) -> Result<Self> {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "0")
            .create()?;
        Ok(Self { producer })
    }
}

#[async_trait]
impl ByHand for Kafka {
    async fn publish(&self, batch: &[Outgoing]) -> Result<()> {
        let mut reports = Vec::with_capacity(batch.len());
        for Outgoing { attributes, body, .. } in batch {
            let mut headers = OwnedHeaders::new_with_capacity(attributes.len());
            for (name, value) in attributes {
                headers = headers.insert(Header { key: name, value: Some(value) });
            }
            let record = FutureRecord::<(), _>::to(TOPIC).payload(body).headers(headers);
            reports.push(self.producer.send_result(record).map_err(|(error, _)| error)?);
        }
        for report in reports {
            report.await?.map_err(|(error, _)| error)?;
        }
        Ok(())
    }

    /// The mock keeps little, and a broker of somebody else's is left as it is.
    async fn clear(&self) -> Result<()> {
        Ok(())
    }
}
