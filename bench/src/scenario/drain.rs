//! How fast a backlog is delivered to a handler that does nothing.

use std::fmt;

use anyhow::Result;
use clap::Args;
use sendoff_engine::relay::ClaimMode;
use serde_json::{Value, json};

use super::settings;
use crate::contest::{Rate, alternate};
use crate::ground::{Ground, Rows};
use crate::report::Finding;
use crate::server::Server;
use crate::work::{By, Drain, End, Statements};
use crate::{Store, ours, raw};

/// What is to be delivered, and with what.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Backlog {
    /// Rows that are due.
    #[arg(long, default_value_t = 200_000)]
    pub(super) rows: u64,
    /// Rows in one claim.
    #[arg(long, default_value_t = 1_000, value_parser = batch)]
    pub(super) batch: usize,
    /// Connections of the hand-written loop; the engine claims on one and settles on another.
    #[arg(long, default_value_t = 2)]
    pub(super) connections: usize,
}

pub(crate) fn batch(text: &str) -> Result<usize, String> {
    let most = sendoff_core::limits::BATCH_ROWS;
    let batch = text.parse().ok().filter(|batch| (1..=most).contains(batch));
    batch.ok_or_else(|| format!("from 1 to {most}"))
}

impl Backlog {
    /// The work it means on this store.
    pub(super) fn drain(&self, store: Store, end: End, by: By) -> Drain {
        let connections = match store {
            Store::Postgres | Store::Mariadb | Store::Mysql => self.connections.max(1),
            // It has one writer.
            Store::Sqlite => 1,
        };
        Drain { rows: self.rows, batch: self.batch, connections, end, by, poison: false }
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

fn contenders(store: Store, by: By) -> &'static [Contender] {
    const STORE: Contender = Contender::ByHand(Statements::Store);
    match (store, by) {
        (Store::Postgres, By::Outbox) => {
            &[STORE, Contender::ByHand(Statements::Plain), Contender::Sendoff]
        }
        _ => &[STORE, Contender::Sendoff],
    }
}

pub(crate) async fn run(server: &Server, rounds: usize, backlog: Backlog) -> Result<Vec<Finding>> {
    let by_outbox = [End::Keep, End::Delete].map(|end| (end.to_string(), end, By::Outbox));
    let locked = ("locked".to_owned(), End::Keep, By::Relay(ClaimMode::Locked));
    // SQLite locks a file, not rows: there is nothing to compare with.
    let locked = (server.store() != Store::Sqlite).then_some(locked);
    let variants = by_outbox.into_iter().chain(locked);
    compare(server, rounds, "drain", backlog, variants).await
}

/// Drains by hand and by the library, in turns, for each variant.
pub(super) async fn compare(
    server: &Server,
    rounds: usize,
    scenario: &'static str,
    backlog: Backlog,
    variants: impl IntoIterator<Item = (String, End, By)>,
) -> Result<Vec<Finding>> {
    let ground = server.ground().await?;
    let database = ground.settings().await?;
    let mut findings = Vec::new();
    for (variant, end, by) in variants {
        let drain = backlog.drain(server.store(), end, by);
        let title = format!("{scenario} {variant}");
        let contenders = contenders(server.store(), by);
        let tally = alternate(&title, rounds, contenders, async |contender| {
            ground.clear().await?;
            ground.fill(Rows::Due(drain.rows)).await?;
            drained(&ground, contender, &drain).await
        })
        .await?;
        let of = |contender| tally.of(contender, |rate: &Rate| rate.0);
        for (variant, statements, limit_is) in [
            (variant.clone(), Statements::Store, "a loop of the same statements"),
            (format!("{variant}-plain"), Statements::Plain, "a loop of the plainest statements"),
        ] {
            let limit = of(Contender::ByHand(statements));
            if limit.is_empty() {
                continue;
            }
            let mut work = described(&drain);
            work["limit_is"] = limit_is.into();
            findings.push(Finding {
                scenario,
                variant,
                unit: "events/s",
                ours: of(Contender::Sendoff),
                limit,
                settings: settings(&database, work),
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
