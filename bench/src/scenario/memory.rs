//! Whether memory follows the backlog: it must be bounded by the lanes.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::process::Command;

use super::settings;
use crate::contest::alternate;
use crate::ground::{Ground, Rows, mysql, postgres, sqlite};
use crate::report::Finding;
use crate::server::Server;
use crate::work::{By, Drain, End};
use crate::{Store, ours};

/// The size of the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.0)
    }
}

/// The most memory a process had, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Peak(u64);

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB", self.0)
    }
}

pub(crate) async fn run(
    server: &Server,
    rounds: usize,
    few: u64,
    many: u64,
    batch: usize,
) -> Result<Vec<Finding>> {
    let store = server.store();
    ensure!(few != many, "the two backlogs must differ");
    let ground = server.ground().await?;
    let tally = alternate("memory", rounds, &[Size(few), Size(many)], async |size: Size| {
        ground.clear().await?;
        ground.fill(Rows::Due(size.0)).await?;
        let peak = in_a_child(store, &ground.address(), size, batch).await?;
        ground.check_drained().await?;
        Ok(peak)
    })
    .await?;
    let of = |size| tally.of(Size(size), |peak: &Peak| peak.0 as f64);
    let scenario = json!({
        "few": few,
        "many": many,
        "batch": batch,
        "limit_is": "the small backlog",
    });
    Ok(vec![Finding {
        scenario: "memory",
        variant: "peak-rss".into(),
        unit: "KiB",
        ours: of(many),
        limit: of(few),
        settings: settings(&ground.settings().await?, scenario),
    }])
}

/// The peak is that of a whole process, so each measurement has its own.
async fn in_a_child(store: Store, at: &str, size: Size, batch: usize) -> Result<Peak> {
    let store = match store {
        Store::Postgres => "postgres",
        Store::Mariadb => "mariadb",
        Store::Mysql => "mysql",
        Store::Sqlite => "sqlite",
    };
    let child = Command::new(std::env::current_exe()?)
        .args(["memory-child", "--store", store, "--at", at])
        .args(["--rows", &size.0.to_string(), "--batch", &batch.to_string()])
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(child.status.success(), "the measured process failed ({})", child.status);
    let kib = String::from_utf8(child.stdout)?.trim().parse();
    Ok(Peak(kib.context("the measured process did not say what it took")?))
}

/// Drains, and prints the most memory this process had.
pub(crate) async fn child(store: Store, at: &str, rows: u64, batch: usize) -> Result<()> {
    let ground = match store {
        Store::Mariadb | Store::Mysql => Ground::Mysql(mysql::Ground::existing(at.to_owned())),
        Store::Postgres => Ground::Postgres(postgres::Ground::existing(at.to_owned())),
        Store::Sqlite => Ground::Sqlite(sqlite::Ground::existing(PathBuf::from(at))),
    };
    let drain =
        Drain { rows, batch, connections: 1, end: End::Keep, by: By::Outbox, poison: false };
    ours::drain(&ground, &drain).await?;
    let status = std::fs::read_to_string("/proc/self/status")
        .context("peak memory is read from /proc, which only Linux has")?;
    let Peak(kib) = peak(&status).context("the kernel does not tell the peak")?;
    writeln!(std::io::stdout(), "{kib}")?;
    Ok(())
}

/// The line `VmHWM:  1234 kB`.
fn peak(status: &str) -> Option<Peak> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok().map(Peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_high_water_mark() {
        let status = "Name:\tbench\nVmPeak:\t  999 kB\nVmHWM:\t   4711 kB\nVmRSS:\t 815 kB\n";
        assert_eq!(peak(status), Some(Peak(4_711)));
        assert_eq!(peak("Name:\tbench\n"), None);
    }
}
