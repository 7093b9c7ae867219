//! `sendoff journal retain`: lets go what everybody has passed and nobody wants to keep.

use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args};
use indicatif::{MultiProgress, ProgressBar};
use sendoff::journal::retain::{
    Fate, JournalMaintainer, RangeTable, Ranges, RetainError, RetainOptions, RetainReport, Retained,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::opened;
use crate::database::Database;
use crate::duration::duration;
use crate::output;
use crate::partitions::listed;
use crate::passes::{Passes, explained};
use crate::signals::{INTERRUPTED, cancelled_by_signal};

/// What a dry run counts at most: beyond that the exact number is worth less than the time.
const COUNTED: usize = 1_000_000;
/// Pairs that are named to a person.
const NAMED: usize = 10;

/// Let go what everybody has passed and nobody wants to keep
///
/// Deletes facts in short transactions, or, in a journal made with `migrate --partitioned`, drops the
/// partitions that are over and makes new ones ahead. Nothing goes that a publisher has not passed,
/// whether it is active, paused or failed, nor what one has parked; who holds facts back is named.
/// Looks again every now and then; with --once it ends instead. Appends go on meanwhile.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("bound").required(true).multiple(true)))]
#[command(mut_arg("dry_run", |arg| arg.help("Only say what would be done, and who holds facts back")))]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://owner@db/shop sendoff journal retain --once --keep 30d\n  \
    sendoff journal retain --once --dry-run --keep 30d --keep-last 1000000\n  \
    sendoff journal retain --keep 30d --archive      partitions are kept as tables of their own\n  \
    sendoff journal retain --keep-all                only make partitions ahead\n\n\
    Exit status: 0 done, or another one is at work; 1 interrupted before --once was through; 2 failed.")]
pub(super) struct Options {
    #[command(flatten)]
    database: Database,
    /// How long a fact is kept at least
    #[arg(long, value_name = "TIME", value_parser = duration, group = "bound")]
    keep: Option<Duration>,
    /// How many of the newest positions are kept at least
    #[arg(long, value_name = "POSITIONS", group = "bound")]
    keep_last: Option<u64>,
    /// Keep everything: only make partitions ahead
    #[arg(long, group = "bound", conflicts_with_all = ["keep", "keep_last"])]
    keep_all: bool,
    /// Keep partitions that are over as tables of their own, instead of dropping them
    #[arg(long)]
    archive: bool,
    /// Positions in a new partition
    #[arg(long, value_name = "POSITIONS", default_value_t = Ranges::DEFAULT.size)]
    size: NonZeroU64,
    /// Partitions that are there before they are needed
    #[arg(long, value_name = "COUNT", default_value_t = Ranges::DEFAULT.ahead)]
    ahead: u32,
    /// How long a change of partitions waits for its locks; appends wait for as long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "500ms")]
    lock_wait: Duration,
    /// How often to look again
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1m")]
    every: Duration,
    #[command(flatten)]
    passes: Passes,
}

const RIGHTS: &str = "retention needs the rights to select and delete facts, tags and, in partitions, \
                    to own the tables";

pub(super) async fn run(options: Options, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    let store = opened::opened(&options.database).await?.retaining();
    let retain = RetainOptions {
        keep: options.keep,
        keep_last: options.keep_last,
        fate: if options.archive { Fate::Archive } else { Fate::Drop },
        ranges: Ranges { size: options.size, ahead: options.ahead, ..Ranges::DEFAULT },
        check_every: options.every,
        lock_wait: options.lock_wait,
        ..RetainOptions::default()
    };
    let bar = screen.add(ProgressBar::new_spinner());
    bar.enable_steady_tick(Duration::from_millis(100));
    let maintainer = JournalMaintainer::new(store, retain)?.on_progress({
        let bar = bar.clone();
        move |report| bar.set_message(told(report))
    });
    let (cancel, single) = (cancelled_by_signal()?, options.passes.once || options.passes.dry_run);
    let mut total = Summary { dry_run: options.passes.dry_run, ..Summary::default() };
    let failure = loop {
        match one(&maintainer, options.passes.dry_run, &cancel).await {
            Ok(retained) => total.add(retained),
            Err(error) => {
                total.report(&error.so_far);
                if single {
                    break Some(error);
                }
                output::complain(&explained(error, RIGHTS));
            }
        }
        if single {
            break None;
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => break None,
            () = tokio::time::sleep(options.every) => {}
        }
    };
    bar.finish_and_clear();
    // Whatever happened, what is gone is gone, and said.
    output::data(&total.shown(options.passes.json)?)?;
    match failure {
        Some(error) => Err(explained(error, RIGHTS)),
        None if single && !total.finished => Ok(ExitCode::from(INTERRUPTED)),
        None => Ok(ExitCode::SUCCESS),
    }
}

async fn one(
    maintainer: &JournalMaintainer,
    dry_run: bool,
    cancel: &CancellationToken,
) -> Result<Retained, RetainError> {
    if dry_run {
        maintainer.dry_run(COUNTED).await
    } else {
        maintainer.run_once_until(cancel.cancelled()).await
    }
}

fn told(report: &RetainReport) -> String {
    let gone = report.dropped.len() + report.archived.len();
    format!("{} facts deleted, {gone} partitions taken out", report.facts)
}

#[derive(Default, Serialize)]
struct Summary {
    dry_run: bool,
    /// Up to here everything may go.
    up_to: u64,
    /// Up to here nobody wants to keep anything.
    wanted: u64,
    held_by: Vec<Held>,
    facts: u64,
    made: Vec<String>,
    moved: u64,
    dropped: Vec<String>,
    archived: Vec<String>,
    skipped: Vec<Left>,
    /// The lowest position that no partition was made for in time.
    in_tail: Option<u64>,
    /// Passes that another maintainer's lock kept from beginning.
    elsewhere: u64,
    finished: bool,
}

#[derive(Serialize)]
struct Held {
    topic: String,
    publisher: String,
    /// The last position that it lets go.
    position: u64,
    why: String,
}

#[derive(Serialize)]
struct Left {
    table: String,
    name: String,
    why: String,
}

impl Summary {
    fn add(&mut self, retained: Retained) {
        match retained {
            Retained::Here(report) => self.report(&report),
            Retained::Elsewhere => {
                self.elsewhere += 1;
                self.finished = true;
                output::note("another maintainer is at work on this journal");
            }
        }
    }

    /// What was done adds up; what is held back or left is as the last pass found it.
    fn report(&mut self, report: &RetainReport) {
        let release = &report.release;
        (self.up_to, self.wanted) = (release.up_to.get(), release.wanted.get());
        let held = release.held_by.iter().map(|held| Held {
            topic: held.pair().topic().to_owned(),
            publisher: held.pair().publisher().to_owned(),
            position: held.lets_go().get(),
            why: held.to_string(),
        });
        self.held_by = held.collect();
        self.facts += report.facts;
        let facts = report.made.iter().filter(|(table, _)| *table == RangeTable::Facts);
        self.made.extend(facts.map(|(_, name)| name.to_string()));
        self.moved += report.moved;
        self.dropped.extend(report.dropped.iter().map(ToString::to_string));
        self.archived.extend(report.archived.iter().cloned());
        let left = report.skipped.iter().map(|left| Left {
            table: left.table.to_string(),
            name: left.name.to_string(),
            why: left.why.to_string(),
        });
        self.skipped = left.collect();
        self.in_tail = report.in_tail.map(|position| position.get());
        self.finished = report.finished;
    }

    fn shown(&self, json: bool) -> serde_json::Result<String> {
        if json {
            return serde_json::to_string(self);
        }
        let would = if self.dry_run { "would have " } else { "" };
        let mut lines = vec![format!(
            "{would}let go everything up to position {}: deleted {} facts, dropped {}, archived {}; \
             {would}made {}",
            self.up_to,
            self.facts,
            listed(&self.dropped),
            listed(&self.archived),
            listed(&self.made)
        )];
        if self.moved > 0 {
            lines.push(format!("moved {} rows out of the tail", self.moved));
        }
        for held in self.held_by.iter().take(NAMED) {
            lines.push(format!("held back up to position {}: {}", self.wanted, held.why));
        }
        if self.held_by.len() > NAMED {
            lines.push(format!("and {} pairs more hold facts back", self.held_by.len() - NAMED));
        }
        for Left { table, name, why } in &self.skipped {
            lines.push(format!("left {name} of the {table}: {why}"));
        }
        if let Some(position) = self.in_tail {
            lines.push(format!("facts from position {position} on have no partition yet"));
        }
        if self.elsewhere > 0 {
            lines.push("another maintainer was at work".to_owned());
        }
        Ok(lines.join("\n"))
    }
}
