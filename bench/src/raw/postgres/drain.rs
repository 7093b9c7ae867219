//! Claim a batch, do nothing with it, mark it; on each connection, until nothing is left.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::settle::Settler;
use crate::ground::postgres::Ground;
use crate::work::Drain;

const CLAIM: &str = include_str!("../../../sql/postgres/claim.sql");

pub(crate) async fn drain(ground: &Ground, drain: &Drain) -> Result<Duration> {
    let mut relays = Vec::new();
    for _ in 0..drain.connections {
        let settler = Settler::new(ground, drain.end).await?;
        let claim = settler.client().prepare(CLAIM).await?;
        relays.push((settler, claim));
    }
    let (started, batch) = (Instant::now(), drain.batch);
    let mut running = JoinSet::new();
    for (settler, claim) in relays {
        running.spawn(relay(settler, claim, batch));
    }
    let mut delivered = 0;
    while let Some(count) = running.join_next().await {
        delivered += count??;
    }
    let took = started.elapsed();
    ensure!(delivered == drain.rows, "{delivered} of {} rows were delivered", drain.rows);
    Ok(took)
}

async fn relay(settler: Settler, claim: Statement, batch: usize) -> Result<u64> {
    let mut delivered = 0;
    loop {
        let (ids, tokens) = claimed(settler.client(), &claim, batch).await?;
        if ids.is_empty() {
            return Ok(delivered);
        }
        settler.settle(&ids, &tokens).await?;
        delivered += ids.len() as u64;
    }
}

async fn claimed(
    client: &Client,
    claim: &Statement,
    batch: usize,
) -> Result<(Vec<Uuid>, Vec<SystemTime>)> {
    let rows = client.query(claim, &[&"by hand", &i64::try_from(batch)?]).await?;
    let (mut ids, mut tokens) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        ids.push(row.try_get(0)?);
        tokens.push(row.try_get(1)?);
        let payload: &[u8] = row.try_get(2)?;
        // The handler: it has seen the bytes.
        std::hint::black_box(payload);
    }
    Ok((ids, tokens))
}
