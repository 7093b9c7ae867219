//! `sendoff partitions`: makes the partitions of an outbox ahead of time, and drops those that are over.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use indicatif::{MultiProgress, ProgressBar};
use sendoff::any::DatabaseKind;
use sendoff::maintain::{Maintained, PartitionMaintainer, PartitionOptions, PartitionReport};
use sendoff::partition::{PartitionName, Period};
use serde::Serialize;

use crate::database::Database;
use crate::duration::duration;
use crate::output;
use crate::passes::{Passes, explained};
use crate::signals::{INTERRUPTED, cancelled_by_signal};

/// Keep the partitions of an outbox
///
/// Makes partitions ahead of time and, with --retention, drops those that ended long enough ago and
/// have no event left to deliver. Looks again every now and then; with --once it ends instead. Of
/// several on one outbox one works at a time. One connection is enough.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://owner@db/shop sendoff partitions --once --retention 7d\n  \
    sendoff partitions --once --dry-run --retention 7d\n  \
    sendoff partitions --period month --lookahead 90d --every 12h\n  \
    sendoff partitions --period hour --retention 1d\n\n\
    In a crontab, every night at two:\n  \
    0 2 * * * sendoff partitions --once --retention 7d --json >> /var/log/outbox-partitions.json\n\n\
    Exit status: 0 done, or another one is at work; 1 interrupted before --once was through; 2 failed.")]
pub(crate) struct Options {
    #[command(flatten)]
    database: Database,
    /// How much time a new partition holds
    #[arg(long, value_enum, default_value_t)]
    period: PeriodOption,
    /// How far ahead partitions are made. 30 days, and 2 with --period hour
    #[arg(long, value_name = "TIME", value_parser = duration)]
    lookahead: Option<Duration>,
    /// How long a partition stays after its end. Without it none is dropped
    #[arg(long, value_name = "TIME", value_parser = duration)]
    retention: Option<Duration>,
    /// Drop partitions with dead events in them too; without it they stay, and are reported
    #[arg(long)]
    drop_dead: bool,
    /// Rows of the tail that may move into a new partition, while writers wait
    #[arg(long, value_name = "ROWS", default_value_t = PartitionOptions::default().most_moved)]
    limit: usize,
    /// How long a change waits for its lock; writers wait for as long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "500ms")]
    lock_wait: Duration,
    /// How often to look again
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1h")]
    every: Duration,
    #[command(flatten)]
    passes: Passes,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum PeriodOption {
    /// `pYYYYMMDDHH`, in UTC.
    Hour,
    /// `pYYYYMMDD`, in UTC.
    #[default]
    Day,
    /// `pYYYYMM`, in UTC.
    Month,
}

impl From<PeriodOption> for Period {
    fn from(period: PeriodOption) -> Self {
        match period {
            PeriodOption::Hour => Self::Hour,
            PeriodOption::Day => Self::Day,
            PeriodOption::Month => Self::Month,
        }
    }
}

const RIGHTS: &str = "making and dropping partitions is for the owner of the table (MySQL: with ALTER, \
                    CREATE, DROP, INSERT, SELECT and LOCK TABLES on it)";

pub(crate) async fn run(options: Options, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    if options.database.kind()? == DatabaseKind::Sqlite {
        bail!("SQLite has no partitions; `sendoff cleanup` deletes what is over");
    }
    let store = Arc::new(options.database.outbox().await?);
    let Options { period, lookahead, retention, drop_dead, limit, lock_wait, every, .. } = options;
    let usual = PartitionOptions::by(period.into());
    let partitions = PartitionOptions {
        period: usual.period,
        lookahead: lookahead.unwrap_or(usual.lookahead),
        retention,
        drop_dead,
        check_every: every,
        lock_wait,
        most_moved: limit,
    };
    let maintainer = PartitionMaintainer::new(store, partitions)?;
    let bar = screen.add(ProgressBar::new_spinner());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar.set_message("keeping partitions");
    let cancel = cancelled_by_signal()?;
    let mut total =
        Summary { dry_run: options.passes.dry_run, finished: true, ..Summary::default() };
    let failure = loop {
        // Dropped in mid-pass, it undoes the change under way and frees its lock.
        let pass = tokio::select! {
            biased;
            () = cancel.cancelled() => { total.finished = !options.passes.once; break None }
            pass = one(&maintainer, options.passes.dry_run) => pass,
        };
        match pass {
            Ok(maintained) => total.add(maintained),
            Err(error) if options.passes.once || options.passes.dry_run => {
                total.finished = false;
                total.report(error.so_far.clone());
                break Some(error);
            }
            Err(error) => {
                total.report(error.so_far.clone());
                output::complain(&explained(error, RIGHTS));
            }
        }
        if options.passes.once || options.passes.dry_run {
            break None;
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => break None,
            () = tokio::time::sleep(every) => {}
        }
    };
    bar.finish_and_clear();
    output::data(&total.shown(options.passes.json)?)?;
    match failure {
        Some(error) => Err(explained(error, RIGHTS)),
        None if !total.finished => Ok(ExitCode::from(INTERRUPTED)),
        None => Ok(ExitCode::SUCCESS),
    }
}

async fn one(
    maintainer: &PartitionMaintainer,
    dry_run: bool,
) -> Result<Maintained, sendoff::maintain::PartitionError> {
    if dry_run { maintainer.dry_run().await } else { maintainer.run_once().await }
}

#[derive(Default, Serialize)]
struct Summary {
    dry_run: bool,
    created: Vec<String>,
    moved: u64,
    dropped: Vec<String>,
    /// Those of them that had dead events, which are gone too.
    dropped_dead: Vec<String>,
    skipped: Vec<Left>,
    /// Passes that another maintainer's lock kept from beginning.
    elsewhere: u64,
    finished: bool,
}

#[derive(Serialize)]
struct Left {
    name: String,
    why: String,
}

impl Summary {
    fn add(&mut self, maintained: Maintained) {
        match maintained {
            Maintained::Here(report) => self.report(report),
            Maintained::Elsewhere => {
                self.elsewhere += 1;
                output::note("another maintainer is at work on these partitions");
            }
        }
    }

    fn report(&mut self, report: PartitionReport) {
        let names = |names: Vec<PartitionName>| names.into_iter().map(|name| name.to_string());
        self.created.extend(names(report.created));
        self.dropped.extend(names(report.dropped));
        self.dropped_dead.extend(names(report.dropped_dead));
        self.moved += report.moved;
        // Of the last pass: what was left before may be done by now.
        self.skipped = report
            .skipped
            .into_iter()
            .map(|left| Left { name: left.name.to_string(), why: left.why.to_string() })
            .collect();
    }

    fn shown(&self, json: bool) -> serde_json::Result<String> {
        if json {
            return serde_json::to_string(self);
        }
        let would = if self.dry_run { "would have " } else { "" };
        let mut text = format!(
            "{would}made {}, moved {} rows out of the tail, {would}dropped {}",
            listed(&self.created),
            self.moved,
            listed(&self.dropped)
        );
        for Left { name, why } in &self.skipped {
            text.push_str(&format!("\nleft {name}: {why}"));
        }
        if self.elsewhere > 0 {
            text.push_str("\nanother maintainer was at work");
        }
        Ok(text)
    }
}

/// Names, or how many there are and the first and the last.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [first, .., last] => format!("{} ({first} to {last})", names.len()),
    }
}
