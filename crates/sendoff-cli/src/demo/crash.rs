//! `sendoff demo --crash`: a demo in a process of its own that is killed in the middle of its work, and resumed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::HumanCount;
use rusqlite::{Connection, OpenFlags};

use super::options::{Amount, Options};
use super::place::deliveries_of;
use crate::output;

/// Orders of the whole story, unless told otherwise.
const ORDERS: u64 = 3_000;
const KILLS: u64 = 2;
/// A process that has not come so far by then will not.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let folder = tempfile::Builder::new().prefix("sendoff-demo-").tempdir()?;
    let db = folder.path().join("demo.db");
    let orders = match options.amount() {
        Amount::Exactly(orders) => orders,
        Amount::Endless => ORDERS,
    };
    output::note(&format!(
        "sendoff demo --crash: {} orders, each with its event in one transaction; the process is killed {KILLS} times",
        HumanCount(orders)
    ));
    let part = (orders / (KILLS + 1)).max(1);
    for kill in 1..=KILLS {
        // More than it will come to, so that it is at work when it is killed.
        let mut running = start(options, &db, kill > 1, orders, false)?;
        let reached = until(&mut running, &db, part * kill);
        // SIGKILL: it has no chance to do anything about it.
        running.kill().and_then(|()| running.wait())?;
        let Stand { written, delivered } = reached?;
        output::note(&format!(
            "  kill -9: {} orders were committed, {} deliveries made; the rest was on its way",
            HumanCount(written),
            HumanCount(delivered)
        ));
    }
    let written = stand(&db).map_or(0, |stand| stand.written);
    output::note(
        "  resumed for the last time: it delivers everything, and the checker looks at every event\n",
    );
    let status = start(options, &db, true, orders.saturating_sub(written).max(1), true)?.wait()?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

/// This program again, as a demo on that file.
fn start(
    options: &Options,
    db: &Path,
    resume: bool,
    orders: u64,
    last: bool,
) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("demo").arg("--db").arg(db).args(["--events", &orders.to_string()]);
    command.args(["--writers", &options.writers.to_string()]);
    command.args(["--workers", &options.workers.to_string()]);
    command.args(["--rollback", &options.rollback.to_string()]);
    command.args(["--failures", &options.failures.to_string()]);
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if resume {
        command.arg("--resume");
    }
    if last {
        command.arg("--exit");
        if options.json {
            command.arg("--json");
        }
    } else {
        // Slow enough to be caught in the middle.
        command.args(["--rate", "1000"]).stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.env_remove("SENDOFF_DEMO_CRASH").stdin(Stdio::null());
    command.spawn().context("this program could not be started again")
}

struct Stand {
    written: u64,
    delivered: u64,
}

/// What is in the file and in the handler's record of it.
fn stand(db: &Path) -> Option<Stand> {
    // Nothing is made: the demo wants a file that is not there yet.
    let conn = Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let written = conn.query_row("select count(*) from orders", [], |row| row.get(0)).ok()?;
    let record = fs::read(deliveries_of(db)).ok()?;
    let delivered = record.iter().filter(|byte| **byte == b'\n').count() as u64;
    Some(Stand { written, delivered })
}

/// Waits until so many orders are committed and some of them delivered.
fn until(running: &mut Child, db: &Path, orders: u64) -> anyhow::Result<Stand> {
    let ends = Instant::now() + PATIENCE;
    while Instant::now() < ends {
        if let Some(stand) =
            stand(db).filter(|stand| stand.written >= orders && stand.delivered > 0)
        {
            return Ok(stand);
        }
        if let Some(status) = running.try_wait()? {
            bail!("the demo ended by itself, with {status}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    bail!("the demo did not get to {orders} orders within {PATIENCE:?}")
}
