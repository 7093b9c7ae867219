//! What an event adds to the transaction that writes it.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::settings;
use crate::contest::{Rate, Side, alternate};
use crate::load::flood;
use crate::raw::Content;
use crate::report::Finding;
use crate::server::Server;
use crate::work::{Clients, Way};
use crate::{Store, ours, raw};

/// Who writes what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    /// The business row alone, by hand.
    Alone,
    /// The business row and an event.
    Event(Side),
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.write_str("business row alone"),
            Self::Event(side) => write!(f, "{side}"),
        }
    }
}

/// How many clients write at once, unless somebody says otherwise.
fn default_clients(store: Store) -> &'static [usize] {
    match store {
        Store::Postgres | Store::Mariadb | Store::Mysql => &[8, 32],
        // It has one writer; more would measure how they wait.
        Store::Sqlite => &[1],
    }
}

pub(crate) async fn run(
    server: &Server,
    rounds: usize,
    clients: &[usize],
    keys: u64,
    way: Option<Way>,
    time: Duration,
) -> Result<Vec<Finding>> {
    let store = server.store();
    let clients = if clients.is_empty() { default_clients(store) } else { clients };
    let ground = server.ground().await?;
    let database = ground.settings().await?;
    let mut findings = Vec::new();
    let wanted = |offered: &Way| way.is_none_or(|way| way == *offered);
    for way in ours::ways(store).iter().copied().filter(wanted) {
        let sides = [Side::ByHand, Side::Sendoff].map(Contender::Event);
        let contenders: Vec<_> = std::iter::once(Contender::Alone).chain(sides).collect();
        for &count in clients {
            let clients = Clients { count, keys };
            let title = format!("write-cost {way}, {count} clients");
            let tally = alternate(&title, rounds, &contenders, async |contender| {
                ground.clear().await?;
                let writers = match contender {
                    Contender::Alone => {
                        raw::writers(&ground, way, Content::Business, clients).await?
                    }
                    Contender::Event(Side::ByHand) => {
                        raw::writers(&ground, way, Content::WithEvent, clients).await?
                    }
                    Contender::Event(Side::Sendoff) => ours::writers(&ground, way, clients).await?,
                };
                let written = flood(writers, time).await?;
                Ok(Rate::new(written.count, written.took))
            })
            .await?;
            let of = |contender| tally.of(contender, |rate: &Rate| rate.0);
            let finding = |variant: String, limit, limit_is: &str| Finding {
                scenario: "write-cost",
                variant: format!("{variant}-{count}"),
                unit: "transactions/s",
                ours: of(Contender::Event(Side::Sendoff)),
                limit,
                settings: settings(
                    &database,
                    json!({
                        "way": way.to_string(),
                        "clients": count,
                        "keys": keys,
                        "seconds": time.as_secs_f64(),
                        "limit_is": limit_is,
                    }),
                ),
            };
            let by_hand = of(Contender::Event(Side::ByHand));
            findings.push(finding(way.to_string(), by_hand, "the same rows by hand"));
            let alone = of(Contender::Alone);
            findings.push(finding(format!("{way}-share"), alone, "the business row alone"));
        }
    }
    Ok(findings)
}
