//! What appending to a journal costs.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use sendoff_core::journal::Fact;
use sendoff_engine::journal::Journal;
use sendoff_postgres::{JournalOptions, PostgresJournal};
use serde_json::json;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::settings;
use crate::contest::{Rate, Side, alternate};
use crate::ground::{Ground, postgres};
use crate::load::{Trace, Writer, Writers, flood};
use crate::order;
use crate::report::Finding;
use crate::server::Server;

const INSERT: &str = include_str!("../../sql/postgres/journal_insert.sql");

/// Who appends, and how many of them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Appenders(Side, usize);

impl fmt::Display for Appenders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} clients", self.0, self.1)
    }
}

/// A database with an empty journal.
pub(super) async fn ground(
    server: &Server,
    clients: usize,
) -> Result<(Ground, Journal<PostgresJournal>)> {
    let ground = server.ground().await?;
    let Ground::Postgres(postgres) = &ground else {
        bail!("the journal is measured on PostgreSQL")
    };
    let options = JournalOptions { connections: clients, ..JournalOptions::default() };
    let store = PostgresJournal::connect_with(postgres.url(), options).await?;
    store.migrate().await?;
    Ok((ground, Journal::new(store)))
}

pub(super) fn postgres(ground: &Ground) -> Result<&postgres::Ground> {
    match ground {
        Ground::Postgres(ground) => Ok(ground),
        Ground::Mysql(_) | Ground::Sqlite(_) => bail!("the journal is measured on PostgreSQL"),
    }
}

/// Appends of one fact each, on a tag of each client's own: alone, and several at once.
pub(crate) async fn append(
    server: &Server,
    rounds: usize,
    clients: usize,
    time: Duration,
) -> Result<Vec<Finding>> {
    let (ground, journal) = ground(server, clients).await?;
    let database = ground.settings().await?;
    let contenders: Vec<_> = [1, clients]
        .into_iter()
        .flat_map(|count| [Side::ByHand, Side::Sendoff].map(|side| Appenders(side, count)))
        .collect();
    let hand = postgres(&ground)?;
    let tally = alternate("append", rounds, &contenders, async |Appenders(side, count)| {
        clear(hand).await?;
        let mut writers = Writers::new();
        for client in 0..count {
            let tag = format!("client={client}");
            writers.push(match side {
                Side::ByHand => Box::new(ByHand::new(hand, tag).await?),
                Side::Sendoff => Box::new(Ours { journal: journal.clone(), tag }),
            });
        }
        let written = flood(writers, time).await?;
        Ok(Rate::new(written.count, written.took))
    })
    .await?;
    let of = |side, count| tally.of(Appenders(side, count), |rate: &Rate| rate.0);
    let finding = |variant: String, unit, ours, limit| Finding {
        scenario: "append",
        variant,
        unit,
        ours,
        limit,
        settings: settings(
            &database,
            json!({ "seconds": time.as_secs_f64(), "limit_is": "the same rows by hand, without locks" }),
        ),
    };
    let mut findings: Vec<_> = [1, clients]
        .into_iter()
        .map(|count| {
            let (ours, limit) = (of(Side::Sendoff, count), of(Side::ByHand, count));
            finding(format!("clients-{count}"), "appends/s", ours, limit)
        })
        .collect();
    let scaling = |side| -> Vec<f64> {
        let (many, one) = (of(side, clients), of(side, 1));
        // In hundredths: a table shows whole numbers.
        many.iter().zip(one).map(|(many, one)| 100.0 * many / one).collect()
    };
    let (ours, limit) = (scaling(Side::Sendoff), scaling(Side::ByHand));
    findings.push(finding(format!("scaling-{clients}"), "% of one client", ours, limit));
    Ok(findings)
}

async fn clear(ground: &postgres::Ground) -> Result<()> {
    let client = ground.connect().await?;
    client.batch_execute("truncate journal_event, journal_tag").await?;
    Ok(client.batch_execute("checkpoint").await?)
}

struct ByHand {
    client: Client,
    insert: Statement,
    tag: String,
}

impl ByHand {
    async fn new(ground: &postgres::Ground, tag: String) -> Result<Self> {
        let client = ground.connect().await?;
        let insert = client.prepare(INSERT).await?;
        Ok(Self { client, insert, tag })
    }
}

#[async_trait]
impl Writer for ByHand {
    async fn write(&mut self, number: u64, _: &Trace) -> Result<()> {
        let (id, payload) = (Uuid::now_v7(), order::payload(number));
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&id, &order::EVENT_TYPE, &self.tag, &payload];
        self.client.execute(&self.insert, &params).await?;
        Ok(())
    }
}

struct Ours {
    journal: Journal<PostgresJournal>,
    tag: String,
}

#[async_trait]
impl Writer for Ours {
    async fn write(&mut self, number: u64, _: &Trace) -> Result<()> {
        let (key, value) = self.tag.split_once('=').unwrap_or((&self.tag, ""));
        let fact = Fact::builder(order::event(number)?).tag(key, value);
        self.journal.append([fact]).await?;
        Ok(())
    }
}
