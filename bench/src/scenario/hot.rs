//! Write, handle, done, all in one process: how many in a second, and how soon after the commit.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::settings;
use crate::contest::{Rate, Side, alternate};
use crate::ground::Ground;
use crate::latency::{Latency, Stamps};
use crate::load::{Trace, flood, paced};
use crate::report::Finding;
use crate::server::Server;
use crate::work::{Clients, Hot};
use crate::{Store, ours, raw};

type Number = fn(&Latency) -> f64;

/// Clients of the steady rate: enough that no commit keeps another waiting.
const STEADY_CLIENTS: usize = 8;

pub(crate) async fn run(
    server: &Server,
    rounds: usize,
    clients: Option<usize>,
    time: Duration,
    rate: u32,
) -> Result<Vec<Finding>> {
    let store = server.store();
    // SQLite has one writer.
    let (usual, steady) = match store {
        Store::Postgres | Store::Mariadb | Store::Mysql => (32, STEADY_CLIENTS),
        Store::Sqlite => (1, 1),
    };
    let clients = clients.unwrap_or(usual);
    let ground = server.ground().await?;
    let database = ground.settings().await?;

    let throughput =
        alternate("hot throughput", rounds, &[Side::ByHand, Side::Sendoff], async |side| {
            ground.clear().await?;
            loaded(&ground, side, clients, time).await
        })
        .await?;
    let latency = alternate("hot latency", rounds, &[Side::ByHand, Side::Sendoff], async |side| {
        ground.clear().await?;
        steadily(&ground, side, steady, time, rate).await
    })
    .await?;

    let seconds = time.as_secs_f64();
    let mut findings = vec![Finding {
        scenario: "hot",
        variant: "throughput".into(),
        unit: "events/s",
        ours: throughput.of(Side::Sendoff, |rate: &Rate| rate.0),
        limit: throughput.of(Side::ByHand, |rate| rate.0),
        settings: settings(&database, json!({ "clients": clients, "seconds": seconds })),
    }];
    let percentiles: [(&str, &str, Number); 4] = [
        ("called-p50", "from the call of commit", |latency| latency.called.p50),
        ("called-p99", "from the call of commit", |latency| latency.called.p99),
        ("replied-p50", "from the answer to commit", |latency| latency.replied.p50),
        ("replied-p99", "from the answer to commit", |latency| latency.replied.p99),
    ];
    for (variant, measured, number) in percentiles {
        findings.push(Finding {
            scenario: "hot",
            variant: variant.into(),
            unit: "µs",
            ours: latency.of(Side::Sendoff, number),
            limit: latency.of(Side::ByHand, number),
            settings: settings(
                &database,
                json!({
                    "clients": steady,
                    "seconds": seconds,
                    "rate": rate,
                    "measured": format!("{measured} to the start of the handler"),
                }),
            ),
        });
    }
    Ok(findings)
}

/// The same for events with keys, against events without: how many in a second.
pub(crate) async fn ordered(
    server: &Server,
    rounds: usize,
    clients: usize,
    keys: u64,
    time: Duration,
) -> Result<Vec<Finding>> {
    let ground = server.ground().await?;
    let database = ground.settings().await?;
    let contenders = [Order::None, Order::WithinKeys];
    let tally = alternate("hot-ordered", rounds, &contenders, async |order| {
        ground.clear().await?;
        let keys = if order == Order::None { 0 } else { keys };
        let clients = Clients { count: clients, keys };
        flooded(&ground, ours::hot(&ground, clients, Trace::default()).await?, time).await
    })
    .await?;
    let of = |order| tally.of(order, |rate: &Rate| rate.0);
    let work = json!({
        "clients": clients,
        "keys": keys,
        "seconds": time.as_secs_f64(),
        "limit_is": "the same without keys",
    });
    Ok(vec![Finding {
        scenario: "hot-ordered",
        variant: "throughput".into(),
        unit: "events/s",
        ours: of(Order::WithinKeys),
        limit: of(Order::None),
        settings: settings(&database, work),
    }])
}

/// Whether events have keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    None,
    WithinKeys,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "unordered",
            Self::WithinKeys => "ordered",
        })
    }
}

async fn start(ground: &Ground, side: Side, clients: usize, trace: Trace) -> Result<Hot> {
    match side {
        Side::ByHand => raw::hot(ground, clients, trace).await,
        Side::Sendoff => ours::hot(ground, Clients::unordered(clients), trace).await,
    }
}

/// As fast as the clients can, up to the last event done.
async fn loaded(ground: &Ground, side: Side, clients: usize, time: Duration) -> Result<Rate> {
    flooded(ground, start(ground, side, clients, Trace::default()).await?, time).await
}

async fn flooded(ground: &Ground, hot: Hot, time: Duration) -> Result<Rate> {
    let Hot { writers, finish } = hot;
    let started = Instant::now();
    let written = flood(writers, time).await?.count;
    finish(written).await?;
    let took = started.elapsed();
    ground.check_drained().await?;
    Ok(Rate::new(written, took))
}

async fn steadily(
    ground: &Ground,
    side: Side,
    clients: usize,
    time: Duration,
    rate: u32,
) -> Result<Latency> {
    let count = (time.as_secs_f64() * f64::from(rate)).ceil() as u64;
    let stamps = Arc::new(Stamps::new(usize::try_from(count)?));
    let trace = Trace(Some(stamps.clone()));
    let Hot { writers, finish } = start(ground, side, clients, trace.clone()).await?;
    let written = paced(writers, count, rate, trace).await?.count;
    finish(written).await?;
    ground.check_drained().await?;
    Ok(stamps.latency())
}
