//! `sendoff journal publishers`: shows pairs of topic and publisher, and pauses, resumes, resets or
//! rewinds them.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use sendoff::Timestamp;
use sendoff::journal::Position;
use sendoff::journal::doctor::PairCheckup;
use sendoff::journal::publish::{CursorStatus, PublishStore, Publishers, To, Which};
use serde_json::json;

use super::opened::Opened;
use super::pairs::Pairs;
use super::which::{Filter, Order};
use crate::database::Database;
use crate::output;

/// Show and operate publishers, wherever they run
///
/// Whoever leads a pair notices a change within a batch or at its next look, and no pair but those
/// that are meant is touched. Whatever is changed here can be changed by plain SQL on journal_cursor.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff journal publishers list\n  \
    sendoff journal publishers list --topic wallets --json\n  \
    sendoff journal publishers pause --publisher kafka\n  \
    sendoff journal publishers resume --topic wallets --publisher kafka\n  \
    sendoff journal publishers reset --publisher kafka\n  \
    sendoff journal publishers rewind --publisher kafka --to-time 2026-01-31T08:00:00Z --dry-run\n\n\
    Exit status: 0 done, 1 a pair that failed was not resumed and has to be reset, 2 failed.")]
pub(super) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say where each pair is, how far it lags, and who leads it
    List(List),
    /// Stop pairs after the batch they are at
    Pause(Order),
    /// Let paused pairs go on where they were. One that failed has to be reset
    Resume(Order),
    /// Let pairs go on that were paused or had failed, and forget their errors
    Reset(Order),
    /// Put cursors somewhere else, back or ahead: what is after the new place is published (again)
    Rewind(Rewind),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    pairs: Filter,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Rewind {
    #[command(flatten)]
    order: Order,
    #[command(flatten)]
    to: Place,
    /// Only say which pairs are meant and where they are
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// After this position; the next fact is the one after it, and 0 is the beginning
    #[arg(long, value_name = "POSITION")]
    to_position: Option<Position>,
    /// Before whatever was recorded at this time or later
    #[arg(long, value_name = "TIME")]
    to_time: Option<Timestamp>,
}

impl Place {
    fn to(self) -> anyhow::Result<To> {
        let position = self.to_position.map(To::Position);
        position.or(self.to_time.map(To::Time)).context("where to? Give --to-position or --to-time")
    }
}

const FAILED: u8 = 1;

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    match options.command {
        Command::List(List { database, pairs, json }) => {
            let opened = Opened::of(database).await?;
            let report = Report::of(&opened.publishers, &pairs.into()).await?;
            report.show(json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Pause(order) => Change::Pause.run(order).await,
        Command::Resume(order) => Change::Resume.run(order).await,
        Command::Reset(order) => Change::Reset.run(order).await,
        Command::Rewind(Rewind { order, to, dry_run: false }) => {
            Change::Rewind(to.to()?).run(order).await
        }
        Command::Rewind(Rewind { order, dry_run: true, .. }) => Change::None.run(order).await,
    }
}

/// What is to be changed.
enum Change {
    None,
    Pause,
    Resume,
    Reset,
    Rewind(To),
}

impl Change {
    async fn run(self, order: Order) -> anyhow::Result<ExitCode> {
        let which = order.pairs.which()?;
        let opened = Opened::of(order.database).await?;
        let publishers = &opened.publishers;
        if publishers.cursors(&which).await?.is_empty() {
            bail!("there is no such pair; `sendoff journal publishers list` shows those there are");
        }
        match self {
            Self::None => {}
            Self::Pause => drop(publishers.pause(&which).await?),
            Self::Resume => drop(publishers.resume(&which).await?),
            Self::Reset => drop(publishers.reset(&which).await?),
            Self::Rewind(to) => drop(publishers.rewind(&which, to).await?),
        }
        let report = Report::of(publishers, &which).await?;
        report.show(order.json)?;
        let failed = |pair: &&PairCheckup| pair.status == CursorStatus::Failed;
        let mut failed = report.pairs.iter().filter(failed).peekable();
        if !matches!(self, Self::Resume) || failed.peek().is_none() {
            return Ok(ExitCode::SUCCESS);
        }
        for PairCheckup { pair, .. } in failed {
            output::note(&format!("{pair} had failed and was not resumed: reset it"));
        }
        Ok(ExitCode::from(FAILED))
    }
}

struct Report {
    head: Position,
    pairs: Vec<PairCheckup>,
}

impl Report {
    async fn of(
        publishers: &Publishers<Arc<dyn PublishStore>>,
        which: &Which,
    ) -> anyhow::Result<Self> {
        let checkup = publishers.checkup(which).await?;
        Ok(Self { head: checkup.head, pairs: checkup.pairs })
    }

    fn show(&self, json: bool) -> anyhow::Result<()> {
        let pairs = Pairs(&self.pairs);
        if json {
            let report = json!({ "head": self.head, "pairs": pairs.json() });
            output::data(&report.to_string())?;
        } else if self.pairs.is_empty() {
            output::note("no publisher has begun yet");
        } else {
            output::data(&pairs.to_string())?;
        }
        Ok(())
    }
}
