//! Whether delivered rows that are kept slow the others down.

use std::fmt;

use anyhow::Result;
use serde_json::json;

use super::drain::{self, Backlog, described, drained};
use super::settings;
use crate::contest::{Rate, Side, alternate, progress};
use crate::ground::Rows;
use crate::report::Finding;
use crate::server::Server;
use crate::work::{By, End, Statements};

/// Who drains, and beside what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contender {
    side: Side,
    past: Past,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    Empty,
    Kept,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = match self.past {
            Past::Empty => "no delivered rows",
            Past::Kept => "delivered rows",
        };
        write!(f, "{} beside {beside}", self.side)
    }
}

pub(crate) async fn run(
    server: &Server,
    rounds: usize,
    backlog: Backlog,
    done: u64,
) -> Result<Vec<Finding>> {
    let (empty, kept) = (server.ground().await?, server.ground().await?);
    progress(format_args!("retained: making {done} delivered rows"));
    kept.fill(Rows::Done(done)).await?;
    let work = backlog.drain(server.store(), End::Keep, By::Outbox);
    let sides = [Side::ByHand, Side::Sendoff];
    let contenders: Vec<_> = sides
        .iter()
        .flat_map(|&side| [Past::Empty, Past::Kept].map(|past| Contender { side, past }))
        .collect();

    // What a round delivers stays: beside so many rows it makes no difference. The room it leaves does
    // not: new versions of rows would find a place where the empty table has to grow.
    let tally = alternate("retained", rounds, &contenders, async |contender: Contender| {
        let ground = match contender.past {
            Past::Empty => {
                empty.clear().await?;
                &empty
            }
            Past::Kept => {
                kept.compact().await?;
                &kept
            }
        };
        ground.fill(Rows::Due(work.rows)).await?;
        let who = match contender.side {
            Side::ByHand => drain::Contender::ByHand(Statements::Store),
            Side::Sendoff => drain::Contender::Sendoff,
        };
        drained(ground, who, &work).await
    })
    .await?;

    let database = empty.settings().await?;
    let finding = |&side: &Side| {
        let of = |past| tally.of(Contender { side, past }, |rate: &Rate| rate.0);
        let mut scenario = described(&work);
        scenario["done"] = done.into();
        scenario["limit_is"] = json!("the same without delivered rows");
        Finding {
            scenario: "retained",
            variant: side.to_string().replace(' ', "-"),
            unit: "events/s",
            ours: of(Past::Kept),
            limit: of(Past::Empty),
            settings: settings(&database, scenario),
        }
    };
    Ok(sides.iter().map(finding).collect())
}
