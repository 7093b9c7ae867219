//! How fast a backlog is delivered to a handler that does nothing.

use std::fmt;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::settings;
use crate::contest::{Rate, alternate};
use crate::ground::{Ground, Rows};
use crate::report::Finding;
use crate::server::Server;
use crate::work::{Drain, End, Statements};
use crate::{Store, ours, raw};

/// What is to be delivered, and with what.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Backlog {
    /// Rows that are due.
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// Rows in one claim.
    #[arg(long, default_value_t = 1_000, value_parser = batch)]
    batch: usize,
    /// Connections of the hand-written loop; the engine claims on one and settles on another.
    #[arg(long, default_value_t = 2)]
    connections: usize,
}

fn batch(text: &str) -> Result<usize, String> {
    let most = sendoff_core::limits::BATCH_ROWS;
    let batch = text.parse().ok().filter(|batch| (1..=most).contains(batch));
    batch.ok_or_else(|| format!("from 1 to {most}"))
}

impl Backlog {
    /// The work it means on this store.
    pub(super) fn drain(&self, store: Store, end: End) -> Drain {
        let connections = match store {
            Store::Postgres => self.connections.max(1),
            // It has one writer.
            Store::Sqlite => 1,
        };
        Drain { rows: self.rows, batch: self.batch, connections, end }
    }
}

/// Who delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contender {
    ByHand(Statements),
    Sendoff,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByHand(Statements::Store) => "by hand",
            Self::ByHand(Statements::Plain) => "by hand, plainly",
            Self::Sendoff => "sendoff",
        })
    }
}

fn contenders(store: Store) -> &'static [Contender] {
    const STORE: Contender = Contender::ByHand(Statements::Store);
    match store {
        Store::Postgres => &[STORE, Contender::ByHand(Statements::Plain), Contender::Sendoff],
        Store::Sqlite => &[STORE, Contender::Sendoff],
    }
}

pub(crate) async fn run(server: &Server, rounds: usize, backlog: Backlog) -> Result<Vec<Finding>> {
    let ground = server.ground().await?;
    let database = ground.settings().await?;
    let mut findings = Vec::new();
    for end in [End::Keep, End::Delete] {
        let drain = backlog.drain(server.store(), end);
        let title = format!("drain {end}");
        let tally = alternate(&title, rounds, contenders(server.store()), async |contender| {
            ground.clear().await?;
            ground.fill(Rows::Due(drain.rows)).await?;
            drained(&ground, contender, &drain).await
        })
        .await?;
        let of = |contender| tally.of(contender, |rate: &Rate| rate.0);
        for (variant, statements, limit_is) in [
            (end.to_string(), Statements::Store, "a loop of the same statements"),
            (format!("{end}-plain"), Statements::Plain, "a loop of the plainest statements"),
        ] {
            let limit = of(Contender::ByHand(statements));
            if limit.is_empty() {
                continue;
            }
            let mut scenario = described(&drain);
            scenario["limit_is"] = limit_is.into();
            findings.push(Finding {
                scenario: "drain",
                variant,
                unit: "events/s",
                ours: of(Contender::Sendoff),
                limit,
                settings: settings(&database, scenario),
            });
        }
    }
    Ok(findings)
}

/// Delivers the backlog that is there.
pub(super) async fn drained(ground: &Ground, contender: Contender, drain: &Drain) -> Result<Rate> {
    let took = match contender {
        Contender::ByHand(statements) => raw::drain(ground, drain, statements).await?,
        Contender::Sendoff => ours::drain(ground, drain).await?,
    };
    ground.check_drained().await?;
    Ok(Rate::new(drain.rows, took))
}

pub(super) fn described(drain: &Drain) -> Value {
    json!({ "rows": drain.rows, "batch": drain.batch, "connections": drain.connections })
}
