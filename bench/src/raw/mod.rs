//! The limit: what somebody would write by hand who wants the same rows to go the same way.
//!
//! Promise: the same statements, batches, connections and durability as the library; no checks, no
//! retries, no failures.

pub(crate) mod broker;
mod mysql;
mod postgres;
mod sqlite;
mod sqlx;

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use futures_util::future::BoxFuture;
use tokio::task::{JoinHandle, JoinSet};

use crate::ground::Ground;
use crate::load::{Trace, Writers};
use crate::work::{Clients, Drain, Finish, Hot, Statements, Way};

/// How long these loops take, which deliver the whole backlog together.
async fn timed(loops: Vec<BoxFuture<'static, Result<u64>>>, drain: &Drain) -> Result<Duration> {
    let started = Instant::now();
    let mut running: JoinSet<_> = loops.into_iter().collect();
    let mut delivered = 0;
    while let Some(count) = running.join_next().await {
        delivered += count??;
    }
    let took = started.elapsed();
    ensure!(delivered == drain.rows, "{delivered} of {} rows were delivered", drain.rows);
    Ok(took)
}

/// Waits until what marks events as done has marked all that were written.
fn all_marked(marking: JoinHandle<Result<u64>>) -> Finish {
    Box::new(move |written| {
        let finished = async move {
            let marked = marking.await??;
            ensure!(marked == written, "{marked} of {written} events were marked");
            Ok(())
        };
        Box::pin(finished)
    })
}

/// What a transaction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// The business row alone.
    Business,
    /// The business row and an event.
    WithEvent,
}

pub(crate) async fn writers(
    ground: &Ground,
    way: Way,
    content: Content,
    clients: Clients,
) -> Result<Writers> {
    match (ground, way) {
        (Ground::Postgres(ground), Way::Guard) => {
            postgres::write::writers(ground, postgres::write::Trips::Pipelined, content, clients)
                .await
        }
        (Ground::Postgres(ground), Way::SqlFunction) => {
            postgres::write::writers(ground, postgres::write::Trips::Stepwise, content, clients)
                .await
        }
        (Ground::Postgres(ground), Way::Sqlx) => sqlx::writers(ground, content, clients).await,
        (Ground::Mysql(ground), Way::Guard) => mysql::writers(ground, content, clients.count).await,
        (Ground::Sqlite(ground), Way::Guard) => sqlite::writers(ground, content, clients.count),
        (Ground::Mysql(_) | Ground::Sqlite(_), _) => bail!("{way} is not measured here"),
    }
}

pub(crate) async fn hot(ground: &Ground, clients: usize, trace: Trace) -> Result<Hot> {
    match ground {
        Ground::Postgres(ground) => postgres::hot::start(ground, clients, trace).await,
        Ground::Mysql(_) => bail!("`hot` is not measured on MariaDB and MySQL"),
        Ground::Sqlite(ground) => sqlite::hot(ground, clients, trace),
    }
}

/// Delivers the backlog, and returns how long it took.
pub(crate) async fn drain(
    ground: &Ground,
    drain: &Drain,
    statements: Statements,
) -> Result<Duration> {
    match ground {
        Ground::Postgres(ground) => postgres::drain::drain(ground, drain, statements).await,
        Ground::Mysql(ground) => mysql::drain(ground, drain).await,
        // The store's own statements are as plain as can be.
        Ground::Sqlite(ground) => sqlite::drain(ground, drain),
    }
}
