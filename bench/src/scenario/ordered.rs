//! What order within keys costs, and what one key that fails costs the others.

use std::fmt;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::drain::{Backlog, described};
use super::settings;
use crate::contest::{Rate, alternate};
use crate::ground::{Ground, Rows};
use crate::ours;
use crate::report::Finding;
use crate::server::Server;
use crate::work::{By, Drain, End};

/// A backlog to deliver by the library, and how its events are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contender {
    rows: u64,
    /// Keys of its events; none where they have no order.
    keys: u64,
    end: End,
    poison: bool,
}

impl Contender {
    const fn unordered(rows: u64) -> Self {
        Self { rows, keys: 0, end: End::Keep, poison: false }
    }

    const fn with(self, keys: u64) -> Self {
        Self { keys, ..self }
    }

    const fn of(self, rows: u64) -> Self {
        Self { rows, ..self }
    }

    const fn deleted(self) -> Self {
        Self { end: End::Delete, ..self }
    }

    async fn drained(self, ground: &Ground, backlog: Backlog, server: &Server) -> Result<Rate> {
        ground.clear().await?;
        ground
            .fill(match self.keys {
                0 => Rows::Due(self.rows),
                keys => Rows::InLine { count: self.rows, keys },
            })
            .await?;
        let poisoned = if self.poison { self.rows.div_ceil(self.keys) } else { 0 };
        let drain = backlog.drain(server.store(), self.end, By::Outbox);
        let drain = Drain { rows: self.rows - poisoned, poison: self.poison, ..drain };
        let took = ours::drain(ground, &drain).await?;
        if !self.poison {
            ground.check_drained().await?;
        }
        Ok(Rate::new(drain.rows, took))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, keys, end, poison } = *self;
        write!(f, "{rows} rows, {end}, ")?;
        match keys {
            0 => f.write_str("unordered")?,
            keys if keys == rows => f.write_str("a key each")?,
            keys => write!(f, "{keys} keys")?,
        }
        f.write_str(if poison { ", one of which fails" } else { "" })
    }
}

/// What is compared: a name, who, and with whom.
type Pair = (&'static str, Contender, Contender);

/// How fast a backlog of ordered events is delivered, against the same events without order, and against fewer
/// of them.
pub(crate) async fn drain(
    server: &Server,
    rounds: usize,
    backlog: Backlog,
) -> Result<Vec<Finding>> {
    let rows = backlog.rows;
    let plain = Contender::unordered(rows);
    let many = plain.with(10_000);
    let pairs: [Pair; 6] = [
        ("10k-keys", many, plain),
        ("a-key-each", plain.with(rows), plain),
        ("a-key-each-deleted", plain.with(rows).deleted(), plain.deleted()),
        ("one-key", plain.with(1), plain),
        ("one-key-flat", plain.with(1), plain.with(1).of(rows / 10)),
        ("10k-keys-flat", many.of(5 * rows), many.of(rows / 2)),
    ];
    compare(server, rounds, "drain-ordered", backlog, &pairs).await
}

/// Keys of which one fails.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Poisoned {
    #[command(flatten)]
    backlog: Backlog,
    /// Keys, one of which fails.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(2..))]
    keys: u64,
}

/// How fast all other keys are delivered while the events of one fail, against the same without that.
pub(crate) async fn poison(
    server: &Server,
    rounds: usize,
    poisoned: Poisoned,
) -> Result<Vec<Finding>> {
    let Poisoned { backlog, keys } = poisoned;
    let sound = Contender::unordered(backlog.rows).with(keys);
    let pairs = [("others", Contender { poison: true, ..sound }, sound)];
    compare(server, rounds, "poison", backlog, &pairs).await
}

async fn compare(
    server: &Server,
    rounds: usize,
    scenario: &'static str,
    backlog: Backlog,
    pairs: &[Pair],
) -> Result<Vec<Finding>> {
    let ground = server.ground().await?;
    let database = ground.settings().await?;
    let mut contenders: Vec<Contender> = Vec::new();
    for contender in pairs.iter().flat_map(|(_, ours, limit)| [*limit, *ours]) {
        if !contenders.contains(&contender) {
            contenders.push(contender);
        }
    }
    let measured = async |contender: Contender| contender.drained(&ground, backlog, server).await;
    let tally = alternate(scenario, rounds, &contenders, measured).await?;
    let of = |contender| tally.of(contender, |rate: &Rate| rate.0);
    let finding = |(variant, ours, limit): &Pair| {
        let mut work = described(&backlog.drain(server.store(), ours.end, By::Outbox));
        work["ours_is"] = json!(ours.to_string());
        work["limit_is"] = json!(limit.to_string());
        Finding {
            scenario,
            variant: (*variant).to_owned(),
            unit: "events/s",
            ours: of(*ours),
            limit: of(*limit),
            settings: settings(&database, work),
        }
    };
    Ok(pairs.iter().map(finding).collect())
}
