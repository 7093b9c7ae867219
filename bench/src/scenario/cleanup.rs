//! Whether deleting old rows slows writers down.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sendoff_engine::CleanupMaintainer;
use serde_json::json;

use super::settings;
use crate::contest::{Rate, alternate};
use crate::ground::{Ground, Rows};
use crate::load::{Writers, flood, flood_while};
use crate::report::Finding;
use crate::server::Server;
use crate::work::{Clients, Way};
use crate::{Store, ours};

/// Beside what the clients write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    Alone,
    Cleanup,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "writers alone",
            Self::Cleanup => "writers beside a cleanup",
        })
    }
}

/// What a round measured.
struct Measured {
    writes: Rate,
    deletions: Option<Rate>,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} written", self.writes)?;
        self.deletions.map_or(Ok(()), |deletions| write!(f, ", {deletions} deleted"))
    }
}

pub(crate) async fn run(
    server: &Server,
    rounds: usize,
    done: u64,
    clients: Option<usize>,
    time: Duration,
) -> Result<Vec<Finding>> {
    let clients = clients.unwrap_or(match server.store() {
        Store::Postgres | Store::Mariadb | Store::Mysql => 8,
        // It has one writer; more would measure how they wait.
        Store::Sqlite => 1,
    });
    let ground = server.ground().await?;
    let contenders = [Contender::Alone, Contender::Cleanup];
    let tally = alternate("cleanup", rounds, &contenders, async |contender| {
        ground.clear().await?;
        ground.fill(Rows::Done(done)).await?;
        let writers = ours::writers(&ground, Way::Guard, Clients::unordered(clients)).await?;
        match contender {
            Contender::Alone => {
                let written = flood(writers, time).await?;
                Ok(Measured { writes: Rate::new(written.count, written.took), deletions: None })
            }
            Contender::Cleanup => beside_cleanup(&ground, writers, done).await,
        }
    })
    .await?;
    let of = |contender| tally.of(contender, |measured: &Measured| measured.writes.0);
    let deleted = tally
        .of(Contender::Cleanup, |measured| measured.deletions.map_or(0.0, |deletions| deletions.0));
    let database = ground.settings().await?;
    let scenario = json!({
        "clients": clients,
        "done": done,
        "seconds": time.as_secs_f64(),
        "deleted_per_second": deleted,
        "limit_is": "the same writers without a cleanup",
    });
    Ok(vec![Finding {
        scenario: "cleanup",
        variant: format!("writers-{clients}"),
        unit: "transactions/s",
        ours: of(Contender::Cleanup),
        limit: of(Contender::Alone),
        settings: settings(&database, scenario),
    }])
}

/// Writes for as long as a cleanup of everything takes.
async fn beside_cleanup(ground: &Ground, writers: Writers, done: u64) -> Result<Measured> {
    let cleanup: CleanupMaintainer = ours::cleanup(ground).await?;
    let going = Arc::new(AtomicBool::new(true));
    let cleaning = tokio::spawn({
        let going = going.clone();
        async move {
            let started = Instant::now();
            let cleaned = cleanup.run_once().await;
            let took = started.elapsed();
            going.store(false, Ordering::Relaxed);
            anyhow::Ok((cleaned?, took, cleanup.dry_run(1).await?))
        }
    });
    let written = flood_while(writers, move || going.load(Ordering::Relaxed)).await?;
    let (cleaned, took, left) = cleaning.await??;
    ensure!(cleaned.purged.done == done, "{} of {done} rows were deleted", cleaned.purged.done);
    ensure!(left.total() == 0, "rows are left that nobody deleted");
    Ok(Measured {
        writes: Rate::new(written.count, written.took),
        deletions: Some(Rate::new(cleaned.purged.done, took)),
    })
}
