//! `sendoff journal parked`: shows facts that publishers parked, tries them again or forgets them.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use sendoff::journal::Position;
use sendoff::journal::publish::{Parked, PublishStore, Publishers, Which};
use serde_json::{Value, json};

use super::opened::Opened;
use super::which::{Filter, Order};
use crate::database::Database;
use crate::output;

/// Show facts that publishers parked, retry or discard them
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
    sendoff journal parked list --publisher kafka\n  \
    sendoff journal parked retry --topic wallets --publisher kafka\n  \
    sendoff journal parked discard --topic wallets --publisher kafka --position 4711\n  \
    sendoff journal parked discard --topic wallets --publisher kafka --all-positions --dry-run\n\n\
    Exit status: 0 done, 2 failed, 3 nothing is parked there.")]
pub(super) enum Command {
    /// Show what is parked, in the order of pairs and positions
    List(List),
    /// Make it due now; whoever leads the pair tries it again
    Retry(Change),
    /// Forget it: it will not be published
    Discard(Discard),
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    pairs: Filter,
    /// Not more than so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// A line of JSON for each
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Change {
    #[command(flatten)]
    order: Order,
    /// Only the fact at this position
    #[arg(long)]
    position: Option<Position>,
}

#[derive(Debug, Args)]
pub(super) struct Discard {
    #[command(flatten)]
    change: Change,
    /// Everything that these pairs parked, not one position
    #[arg(long, required_unless_present = "position", conflicts_with = "position")]
    all_positions: bool,
    /// Only say how many there are
    #[arg(long)]
    dry_run: bool,
}

const NOTHING: u8 = 3;

pub(super) async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List(list) => list.run().await,
        Command::Retry(change) => change.run(Act::Retry).await,
        Command::Discard(Discard { change, dry_run: true, .. }) => change.run(Act::Count).await,
        Command::Discard(Discard { change, .. }) => change.run(Act::Discard).await,
    }
}

impl List {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let (which, opened) = (self.pairs.into(), Opened::of(self.database).await?);
        let publishers = &opened.publishers;
        let mut any = false;
        each(publishers, &which, self.limit, |parked| {
            any = true;
            let line = if self.json { line(parked).to_string() } else { sentence(parked) };
            Ok(output::stream(&line)?)
        })
        .await?;
        if !any {
            output::note("nothing is parked");
            return Ok(ExitCode::from(NOTHING));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows what is parked, page by page, for as long as somebody wants to see it.
async fn each(
    publishers: &Publishers<Arc<dyn PublishStore>>,
    which: &Which,
    limit: usize,
    mut see: impl FnMut(&Parked) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let (mut last, mut left): (Option<Parked>, _) = (None, limit);
    while left > 0 {
        let after = last.as_ref().map(|last| (&last.pair, last.position));
        let page = publishers.parked(which, after, left).await?;
        left -= page.len();
        for parked in &page {
            if !see(parked)? {
                return Ok(());
            }
        }
        let Some(end) = page.last() else { break };
        last = Some(end.clone());
    }
    Ok(())
}

fn line(parked: &Parked) -> Value {
    json!({
        "topic": parked.pair.topic(),
        "publisher": parked.pair.publisher(),
        "position": parked.position,
        "attempts": parked.attempts,
        "parked_at": parked.parked_at.to_string(),
        "next_at": parked.next_at.map(|time| time.to_string()),
        "error": parked.error,
    })
}

fn sentence(parked: &Parked) -> String {
    let Parked { pair, position, attempts, parked_at, .. } = parked;
    let next = parked
        .next_at
        .map_or("not tried by itself any more".to_owned(), |time| format!("next attempt {time}"));
    let error = parked.error.as_deref().unwrap_or("no error was kept");
    format!("{pair} at {position}: {attempts} attempts since {parked_at}, {next}: {error}")
}

enum Act {
    Count,
    Retry,
    Discard,
}

impl Change {
    async fn run(self, act: Act) -> anyhow::Result<ExitCode> {
        let Order { database, pairs, json } = self.order;
        let (which, position) = (pairs.which()?, self.position);
        let opened = Opened::of(database).await?;
        let publishers = &opened.publishers;
        let (count, did) = match act {
            Act::Retry => (publishers.retry_parked(&which, position).await?, "due now"),
            Act::Discard => (publishers.discard_parked(&which, position).await?, "discarded"),
            Act::Count => {
                let mut count = 0;
                each(publishers, &which, usize::MAX, |parked| {
                    count += u64::from(position.is_none_or(|p| p == parked.position));
                    Ok(true)
                })
                .await?;
                (count, "to be discarded")
            }
        };
        if json {
            let dry_run = matches!(act, Act::Count);
            output::data(&json!({ "facts": count, "dry_run": dry_run }).to_string())?;
        } else {
            output::data(&format!("{count} facts {did}"))?;
        }
        Ok(if count == 0 { ExitCode::from(NOTHING) } else { ExitCode::SUCCESS })
    }
}
