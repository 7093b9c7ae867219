//! How fast a backlog reaches a broker, against what database and broker give by themselves.
//!
//! The limit is 1/(1/drain + 1/publish): delivering to a handler that does nothing, and publishing the same messages by hand,
//! one after the other. A library that does one while the other goes on can be faster than that.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result};
use sendoff_core::{Delivery, Lane, Origin, Sink, Timestamp};
use sendoff_sinks::envelope::{Binding, EnvelopeOptions};
use sendoff_sinks::kafka::{KafkaOptions, KafkaSink};
use sendoff_sinks::nats::{NatsAuth, NatsOptions, NatsSink};
use sendoff_sinks::redis::{RedisAuth, RedisOptions, RedisSink};

use super::drain::{Backlog, Contender as Drainer, described, drained};
use super::settings;
use crate::contest::{Rate, alternate};
use crate::ground::Rows;
use crate::raw::broker::{self, ByHand, Outgoing};
use crate::report::Finding;
use crate::server::Server;
use crate::work::{By, Drain, End};
use crate::{order, ours};

/// Batches that are published at once by hand: as many as the engine has workers.
const AT_ONCE: usize = 4;

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    /// The outbox, with a handler that does nothing.
    Drain,
    /// The broker's client.
    Publish,
    /// The outbox, with the sink.
    Sendoff,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drain => "a handler that does nothing",
            Self::Publish => "the client by hand",
            Self::Sendoff => "sendoff",
        })
    }
}

/// A broker, as its client and as the sink reach it.
struct Target {
    scenario: &'static str,
    binding: Binding,
    by_hand: Arc<dyn ByHand>,
    sink: Arc<dyn Sink>,
}

pub(crate) async fn nats(server: &Server, rounds: usize, backlog: Backlog) -> Result<Vec<Finding>> {
    let url = server.broker("nats", "SENDOFF_NATS_URL").await?;
    let Address { server: host, user, password } = Address::of(&url)?;
    let by_hand = broker::nats::Nats::connect(&host, &user, &password).await?;
    let sink = NatsSink::start(NatsOptions {
        servers: vec![host],
        auth: NatsAuth::Password { user, password: password.into() },
        subject: broker::nats::SUBJECT.to_owned(),
        ..NatsOptions::stream(broker::nats::STREAM)
    });
    let target = Target {
        scenario: "sink-nats",
        binding: Binding::NATS,
        by_hand: Arc::new(by_hand),
        sink: Arc::new(sink.await?),
    };
    run(server, rounds, backlog, target).await
}

pub(crate) async fn redis(
    server: &Server,
    rounds: usize,
    backlog: Backlog,
) -> Result<Vec<Finding>> {
    let url = server.broker("redis", "SENDOFF_REDIS_URL").await?;
    let Address { server: host, user, password } = Address::of(&url)?;
    let sink = RedisSink::start(RedisOptions {
        auth: Some(RedisAuth { user: Some(user), password: password.into() }),
        stream: broker::redis::STREAM.to_owned(),
        ..RedisOptions::server(host)
    });
    let target = Target {
        scenario: "sink-redis",
        binding: Binding::REDIS,
        by_hand: Arc::new(broker::redis::Redis::connect(&url).await?),
        sink: Arc::new(sink.await?),
    };
    run(server, rounds, backlog, target).await
}

pub(crate) async fn kafka(
    server: &Server,
    rounds: usize,
    backlog: Backlog,
) -> Result<Vec<Finding>> {
    let cluster = broker::kafka::Cluster::start()?;
    let named = std::env::var("SENDOFF_KAFKA_URL").ok().filter(|url| !url.is_empty());
    let brokers = named.or_else(|| cluster.brokers()).context("no mock cluster was started")?;
    let brokers = brokers.strip_prefix("kafka://").unwrap_or(&brokers);
    let sink = KafkaSink::start(KafkaOptions {
        brokers: brokers.split(',').map(str::to_owned).collect(),
        ..KafkaOptions::topic(broker::kafka::TOPIC)
    });
    let target = Target {
        scenario: "sink-kafka",
        binding: Binding::KAFKA,
        by_hand: Arc::new(broker::kafka::Kafka::connect(brokers)?),
        sink: Arc::new(sink.await?),
    };
    run(server, rounds, backlog, target).await
}

async fn run(
    server: &Server,
    rounds: usize,
    backlog: Backlog,
    target: Target,
) -> Result<Vec<Finding>> {
    let ground = server.ground().await?;
    let database = ground.settings().await?;
    let drain = backlog.drain(server.store(), End::Keep, By::Outbox);
    let contenders = [Contender::Drain, Contender::Publish, Contender::Sendoff];
    let Target { scenario, binding, by_hand, sink } = target;
    let tally = alternate(scenario, rounds, &contenders, async |contender| {
        by_hand.clear().await?;
        if contender == Contender::Publish {
            let messages = messages(&drain, &binding)?;
            let took = broker::publish(&by_hand, messages, drain.batch, AT_ONCE).await?;
            return Ok(Rate::new(drain.rows, took));
        }
        ground.clear().await?;
        ground.fill(Rows::Due(drain.rows)).await?;
        if contender == Contender::Drain {
            return drained(&ground, Drainer::Sendoff, &drain).await;
        }
        let took = ours::drain_to(&ground, &drain, Arc::clone(&sink)).await?;
        ground.check_drained().await?;
        Ok(Rate::new(drain.rows, took))
    })
    .await?;
    let of = |contender| tally.of(contender, |rate: &Rate| rate.0);
    let (drains, publishes) = (of(Contender::Drain), of(Contender::Publish));
    let one_after_the_other = |(drain, publish): (&f64, &f64)| 1.0 / (1.0 / drain + 1.0 / publish);
    let limit = drains.iter().zip(&publishes).map(one_after_the_other).collect();
    let mut work = described(&drain);
    work["limit_is"] = "1/(1/drain + 1/publish)".into();
    work["publish_at_once"] = AT_ONCE.into();
    work["drain"] = drains.into();
    work["publish"] = publishes.into();
    Ok(vec![Finding {
        scenario,
        variant: "keep".to_owned(),
        unit: "events/s",
        ours: of(Contender::Sendoff),
        limit,
        settings: settings(&database, work),
    }])
}

/// The messages that the sink sends for such a backlog.
fn messages(drain: &Drain, binding: &Binding) -> Result<Vec<Outgoing>> {
    let envelope = EnvelopeOptions::Native.check("bench.envelope")?;
    let message = |number| {
        let origin = Origin::Row(Lane::Cold);
        let event = order::event(number)?;
        let delivery = Delivery { event, created_at: Timestamp::now(), attempt: 1, origin };
        let message = envelope.wrap(&delivery, binding)?;
        let attributes =
            message.attributes.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Ok(Outgoing {
            id: delivery.id().to_string(),
            attributes: attributes.collect(),
            body: message.body.to_vec(),
        })
    };
    (0..drain.rows).map(message).collect()
}

/// An address with a user and a password, and without.
struct Address {
    server: String,
    user: String,
    password: String,
}

impl Address {
    fn of(url: &str) -> Result<Self> {
        let parts = || {
            let (scheme, rest) = url.split_once("://")?;
            let (known, host) = rest.split_once('@')?;
            let (user, password) = known.split_once(':')?;
            let server = format!("{scheme}://{host}");
            Some(Self { server, user: user.to_owned(), password: password.to_owned() })
        };
        parts().context("the broker's address is none such as scheme://user:password@host:port")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let address = Address::of("redis://me:secret@127.0.0.1:5/0").unwrap();
        assert_eq!(address.server, "redis://127.0.0.1:5/0");
        assert_eq!((&*address.user, &*address.password), ("me", "secret"));
        assert!(Address::of("redis://127.0.0.1").is_err());
    }
}
