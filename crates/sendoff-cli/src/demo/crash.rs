//! `sendoff demo --crash`: a demo in a process of its own that is killed in the middle of its work, and resumed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::HumanCount;

use super::options::{Amount, Options};
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
        let mut running = start(options, &db, kill > 1, orders, Chapter::Until(part * kill))?;
        let reached = running.stdout.take().context("no stdout").and_then(heard);
        // SIGKILL: it has no chance to do anything about it.
        running.kill().and_then(|()| running.wait())?;
        let Reached { written, delivered } = reached?;
        output::note(&format!(
            "  kill -9: {} orders were committed, {} deliveries made; the rest was on its way",
            HumanCount(written),
            HumanCount(delivered)
        ));
    }
    output::note(
        "  resumed for the last time: it delivers everything, and the checker looks at every event\n",
    );
    let status = start(options, &db, true, orders, Chapter::Last)?.wait()?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

/// A part of the story.
#[derive(Debug, Clone, Copy)]
enum Chapter {
    /// Killed once so many orders are there.
    Until(u64),
    /// Comes to its end.
    Last,
}

/// This program again, as a demo on that file or on the database that was named.
fn start(
    options: &Options,
    db: &Path,
    resume: bool,
    orders: u64,
    chapter: Chapter,
) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("demo").args(["--events", &orders.to_string()]);
    command.args(["--writers", &options.writers.to_string()]);
    command.args(["--workers", &options.workers.to_string()]);
    command.args(["--rollback", &options.rollback.to_string()]);
    command.args(["--failures", &options.failures.to_string()]);
    command.args(["--name", options.name.as_str()]);
    // By the environment, where it is not seen.
    match options.server() {
        Some(url) => command.env("SENDOFF_DEMO_DATABASE_URL", url).env_remove("SENDOFF_DEMO_DB"),
        None => command.env("SENDOFF_DEMO_DB", db).env_remove("SENDOFF_DEMO_DATABASE_URL"),
    };
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if resume {
        command.arg("--resume");
    }
    match chapter {
        // Slow enough to be caught in the middle.
        Chapter::Until(orders) => {
            command.args(["--chapter", &orders.to_string(), "--rate", "1000"]);
            command.stdout(Stdio::piped()).stderr(Stdio::null());
        }
        Chapter::Last => {
            command.args(["--chapter", "0", "--exit"]);
            let flags = [(options.json, "--json"), (options.keep, "--keep")];
            command.args(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag));
        }
    }
    command.env_remove("SENDOFF_DEMO_CRASH").stdin(Stdio::null());
    command.spawn().context("this program could not be started again")
}

/// How far a chapter came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reached {
    written: u64,
    delivered: u64,
}

/// Waits for the line of a [`Milestone`].
fn heard(stdout: ChildStdout) -> anyhow::Result<Reached> {
    let (tell, told) = mpsc::channel();
    // Ends with the process, which is killed in any case.
    thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        // Whoever asked may have lost patience.
        let _ = tell.send(read.map(|_| line));
    });
    let Ok(line) = told.recv_timeout(PATIENCE) else {
        bail!("the demo did not come as far as it should within {PATIENCE:?}")
    };
    Reached::parse(&line?).context("the demo ended by itself")
}

impl Reached {
    fn parse(line: &str) -> Option<Self> {
        let (written, delivered) = line.trim_end().split_once(' ')?;
        Some(Self { written: written.parse().ok()?, delivered: delivered.parse().ok()? })
    }
}

/// Tells on stdout, once, that so many orders are committed and some of them delivered.
#[derive(Debug)]
pub(crate) struct Milestone {
    orders: u64,
    told: bool,
}

impl Milestone {
    /// None for the last chapter.
    pub(crate) fn at(orders: u64) -> Option<Self> {
        (orders > 0).then_some(Self { orders, told: false })
    }

    pub(crate) fn passed(&mut self, written: u64, delivered: u64) -> anyhow::Result<()> {
        if !self.told && written >= self.orders && delivered > 0 {
            self.told = true;
            output::data(&format!("{written} {delivered}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_milestone_is_understood_and_no_other() {
        assert_eq!(Reached::parse("7 5\n"), Some(Reached { written: 7, delivered: 5 }));
        assert_eq!(Reached::parse(""), None);
        assert_eq!(Reached::parse("error: no"), None);
    }
}
