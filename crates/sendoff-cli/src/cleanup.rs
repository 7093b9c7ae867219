//! `sendoff cleanup`: deletes rows that ended longer ago than they are kept.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{MultiProgress, ProgressBar};
use sendoff::Timestamp;
use sendoff::maintain::{Cleaned, CleanupMaintainer, CleanupOptions};
use sendoff::store::Purged;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::database::Database;
use crate::duration::duration;
use crate::output;
use crate::passes::{Passes, explained};
use crate::signals::{INTERRUPTED, cancelled_by_signal};

/// What a dry run counts at most: beyond that the exact number is worth less than the time.
const COUNTED: usize = 1_000_000;

/// Delete delivered events that were kept long enough
///
/// Deletes in short transactions until nothing is left that is past its retention, then looks again
/// every now and then; with --once it ends instead. Events that are still to be delivered are never
/// touched, dead ones only when asked. What an inbox saw and what operators did is forgotten after times
/// of their own. Safe to run in several places and beside everything else.
#[derive(Debug, Args)]
#[command(
    mut_arg("once", |arg| arg.help("End when nothing is left")),
    mut_arg("dry_run", |arg| arg.help("Only count the events that would be deleted, up to a million"))
)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff cleanup --once\n  \
    sendoff cleanup --once --dry-run --include-dead --retention 30d\n  \
    sendoff cleanup --once --before 2026-01-31T08:00:00Z\n  \
    sendoff cleanup --every 15m              until Ctrl-C or a request to end\n\n\
    In a crontab, every night at two:\n  \
    0 2 * * * sendoff cleanup --once --json >> /var/log/outbox-cleanup.json\n\n\
    Exit status: 0 done, 1 interrupted before --once was through, 2 failed.")]
pub(crate) struct Options {
    #[command(flatten)]
    database: Database,
    /// How long ago an event must have ended
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "7d")]
    retention: Duration,
    /// Delete events that ended before this moment instead, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "MOMENT", conflicts_with = "retention")]
    before: Option<Timestamp>,
    /// Rows in one pass; passes follow each other until nothing is left
    #[arg(long, value_name = "ROWS", default_value_t = CleanupOptions::default().limit)]
    limit: usize,
    /// Delete dead events too
    #[arg(long)]
    include_dead: bool,
    /// How long an inbox remembers what was seen: longer than an event may still come again
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30d")]
    inbox_retention: Duration,
    /// How long the audit remembers what operators did
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "365d")]
    audit_retention: Duration,
    /// How often to look again
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1h")]
    every: Duration,
    #[command(flatten)]
    passes: Passes,
}

pub(crate) async fn run(options: Options, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    let store = Arc::new(options.database.outbox().await?);
    let Options { retention, before, limit, include_dead, every, passes, .. } = options;
    let cleanup = CleanupOptions {
        retention,
        check_every: every,
        limit,
        include_dead,
        inbox_retention: Some(options.inbox_retention),
        audit_retention: Some(options.audit_retention),
        ..Default::default()
    };
    let maintainer = CleanupMaintainer::new(store, cleanup)?;
    let maintainer = match before {
        Some(moment) => maintainer.before(moment),
        None => maintainer,
    };
    if options.passes.dry_run {
        let found = maintainer.dry_run(COUNTED).await.map_err(|error| explained(error, RIGHTS))?;
        let more = found.total() >= COUNTED as u64;
        output::data(
            &Found { dry_run: true, done: found.done, dead: found.dead, more }
                .shown(passes.json)?,
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let bar = screen.add(ProgressBar::new_spinner());
    bar.enable_steady_tick(Duration::from_millis(100));
    let maintainer = maintainer.on_progress({
        let bar = bar.clone();
        move |cleaned| bar.set_message(format!("{} rows deleted", cleaned.purged.total()))
    });
    let (cancel, began) = (cancelled_by_signal()?, Instant::now());
    let (cleaned, failure) = work(&maintainer, options.passes.once, &cancel).await;
    bar.finish_and_clear();
    // Whatever happened, what was deleted is deleted, and said.
    output::data(&Summary::of(cleaned, began.elapsed()).shown(passes.json)?)?;
    match failure {
        Some(error) => Err(explained(error, RIGHTS)),
        None if options.passes.once && !cleaned.finished => Ok(ExitCode::from(INTERRUPTED)),
        None => Ok(ExitCode::SUCCESS),
    }
}

const RIGHTS: &str = "cleanup needs the rights to select, update and delete rows of the outbox";

async fn work(
    maintainer: &CleanupMaintainer,
    once: bool,
    cancel: &CancellationToken,
) -> (Cleaned, Option<anyhow::Error>) {
    if !once {
        return (maintainer.run(cancel.cancelled()).await, None);
    }
    match maintainer.run_once_until(cancel.cancelled()).await {
        Ok(cleaned) => (cleaned, None),
        Err(error) => (error.so_far, Some(error.into())),
    }
}

#[derive(Serialize)]
struct Found {
    dry_run: bool,
    done: u64,
    dead: u64,
    /// There are at least so many.
    more: bool,
}

impl Found {
    fn shown(&self, json: bool) -> serde_json::Result<String> {
        if json {
            return serde_json::to_string(self);
        }
        let least = if self.more { "at least " } else { "" };
        Ok(format!("would delete {least}{} delivered and {} dead events", self.done, self.dead))
    }
}

#[derive(Serialize)]
struct Summary {
    dry_run: bool,
    done: u64,
    dead: u64,
    /// Of the inbox.
    seen: u64,
    /// Of the audit.
    audit: u64,
    batches: u64,
    passes: u64,
    finished: bool,
    seconds: f64,
}

impl Summary {
    fn of(cleaned: Cleaned, took: Duration) -> Self {
        let Cleaned { purged: Purged { done, dead }, seen, audit, batches, passes, finished } =
            cleaned;
        let seconds = took.as_secs_f64();
        Self { dry_run: false, done, dead, seen, audit, batches, passes, finished, seconds }
    }

    fn shown(&self, json: bool) -> serde_json::Result<String> {
        if json {
            return serde_json::to_string(self);
        }
        let left = if self.finished { "nothing is left" } else { "more may be left" };
        let beside: String =
            [(self.seen, "that an inbox saw"), (self.audit, "entries of the audit")]
                .iter()
                .filter(|(rows, _)| *rows > 0)
                .map(|(rows, what)| format!(" and {rows} {what}"))
                .collect();
        Ok(format!(
            "deleted {} delivered and {} dead events{beside} in {} transactions, {:.1} s; {left}",
            self.done, self.dead, self.batches, self.seconds
        ))
    }
}
