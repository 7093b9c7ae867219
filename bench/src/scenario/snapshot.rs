//! Whether a snapshot that somebody keeps open slows deliveries down, the more the longer.
//!
//! Beside it the database keeps every version of a row, and whatever looks for the first row that is
//! due may have to step over all that were delivered since.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use sendoff_engine::relay::ClaimMode;
use serde_json::json;

use super::drain::{Backlog, batch, described};
use super::settings;
use crate::contest::{Rate, alternate};
use crate::ground::Rows;
use crate::ours;
use crate::report::Finding;
use crate::server::Server;
use crate::work::{By, End};

/// What is to be delivered, and in what steps it is looked at.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Work {
    /// Events that are due.
    #[arg(long, default_value_t = 600_000)]
    events: u64,
    /// Events after which the time is taken.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    slice: u64,
    /// Rows in one claim.
    #[arg(long, default_value_t = 1_000, value_parser = batch)]
    batch: usize,
}

/// Beside what a backlog is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nobody,
    Snapshot,
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "beside nobody",
            Self::Snapshot => "beside a snapshot",
        })
    }
}

/// How long each slice took.
#[derive(Debug, Clone)]
struct Slices {
    times: Vec<Duration>,
    slice: u64,
    events: u64,
}

impl Slices {
    /// Events in the slice at this place: the last one may be smaller.
    fn size(&self, place: usize) -> u64 {
        self.slice.min(self.events - self.slice * place as u64)
    }

    fn rate(&self, places: std::ops::Range<usize>) -> Rate {
        let count = places.clone().map(|place| self.size(place)).sum();
        Rate::new(count, self.times[places].iter().sum())
    }

    /// Slice by slice.
    fn rates(&self) -> Vec<f64> {
        (0..self.times.len()).map(|place| self.rate(place..place + 1).0.round()).collect()
    }

    /// Of the last quarter: what came before it lies in its way.
    fn last(&self) -> Rate {
        let count = self.times.len();
        self.rate(count - count.div_ceil(4)..count)
    }
}

impl fmt::Display for Slices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the last quarter {:?}", self.last(), self.rates())
    }
}

pub(crate) async fn run(server: &Server, rounds: usize, work: Work) -> Result<Vec<Finding>> {
    let Work { events, slice, batch } = work;
    let backlog = Backlog { rows: events, batch, connections: 2 };
    let ground = server.ground().await?;
    let database = ground.settings().await?;
    let mut findings = Vec::new();
    for (variant, by) in [
        ("outbox", By::Outbox),
        ("relay-held", By::Relay(ClaimMode::Held)),
        ("relay-locked", By::Relay(ClaimMode::Locked)),
    ] {
        let drain = backlog.drain(server.store(), End::Keep, by);
        let title = format!("snapshot {variant}");
        let contenders = [Beside::Nobody, Beside::Snapshot];
        let tally = alternate(&title, rounds, &contenders, async |beside| {
            ground.clear().await?;
            ground.fill(Rows::Due(events)).await?;
            let _open = match beside {
                Beside::Nobody => None,
                Beside::Snapshot => Some(ground.snapshot().await?),
            };
            let times = ours::laps(&ground, &drain, slice).await?;
            ground.check_drained().await?;
            Ok(Slices { times, slice, events })
        })
        .await?;
        let mut scenario = described(&drain);
        scenario["slice"] = slice.into();
        scenario["slices"] = json!({
            "ours": tally.of(Beside::Snapshot, Slices::rates),
            "limit": tally.of(Beside::Nobody, Slices::rates),
        });
        scenario["limit_is"] = json!("the same without a snapshot; both in the last quarter");
        findings.push(Finding {
            scenario: "snapshot",
            variant: variant.to_owned(),
            unit: "events/s",
            ours: tally.of(Beside::Snapshot, |slices: &Slices| slices.last().0),
            limit: tally.of(Beside::Nobody, |slices: &Slices| slices.last().0),
            settings: settings(&database, scenario),
        });
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_quarter_is_judged_and_the_last_slice_may_be_smaller() {
        let times = [1, 1, 1, 1, 2].map(Duration::from_secs).to_vec();
        let slices = Slices { times, slice: 10, events: 44 };
        assert_eq!(slices.rates(), [10.0, 10.0, 10.0, 10.0, 2.0]);
        assert_eq!(slices.last().0.round(), 5.0, "14 in 3 s");
    }
}
