//! Claim a batch, do nothing with it, mark it; on each connection, until nothing is left.

use std::time::Duration;

use anyhow::Result;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sendoff_engine::relay::ClaimMode;

use super::locked::Locker;
use super::statements::Relay;
use crate::ground::postgres::Ground;
use crate::raw::timed;
use crate::work::{By, Drain, Statements};

pub(in crate::raw) async fn drain(
    ground: &Ground,
    drain: &Drain,
    statements: Statements,
) -> Result<Duration> {
    let mut loops: Vec<BoxFuture<'static, Result<u64>>> = Vec::new();
    for _ in 0..drain.connections {
        loops.push(match drain.by {
            By::Relay(ClaimMode::Locked) => {
                Locker::new(ground, drain.end).await?.run(drain.batch).boxed()
            }
            By::Outbox | By::Relay(ClaimMode::Held) => {
                run(Relay::new(ground, statements, drain.end).await?, drain.batch).boxed()
            }
        });
    }
    timed(loops, drain).await
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
