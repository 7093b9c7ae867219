//! Claim a batch, do nothing with it, mark it; on each connection, until nothing is left.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::statements::Relay;
use crate::ground::postgres::Ground;
use crate::work::{Drain, Statements};

pub(in crate::raw) async fn drain(
    ground: &Ground,
    drain: &Drain,
    statements: Statements,
) -> Result<Duration> {
    let mut relays = Vec::new();
    for _ in 0..drain.connections {
        relays.push(Relay::new(ground, statements, drain.end).await?);
    }
    let (started, batch) = (Instant::now(), drain.batch);
    let mut running = JoinSet::new();
    for relay in relays {
        running.spawn(run(relay, batch));
    }
    let mut delivered = 0;
    while let Some(count) = running.join_next().await {
        delivered += count??;
    }
    let took = started.elapsed();
    ensure!(delivered == drain.rows, "{delivered} of {} rows were delivered", drain.rows);
    Ok(took)
}

async fn run(relay: Relay, batch: usize) -> Result<u64> {
    let mut delivered = 0;
    loop {
        let held = relay.claim(batch).await?;
        if held.ids.is_empty() {
            return Ok(delivered);
        }
        relay.settle(&held).await?;
        delivered += held.ids.len() as u64;
    }
}
