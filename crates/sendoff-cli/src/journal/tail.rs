//! `sendoff journal tail`: prints facts in order, as they become certain.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use sendoff::journal::{Batch, HolderId, Item, Position, Query, Tag, TailOptions};

use super::fact;
use super::opened::Opened;
use crate::database::Database;
use crate::duration::duration;
use crate::output;
use crate::signals::cancelled_by_signal;

/// Print facts in the order of their positions
///
/// One line of JSON each. Nothing is skipped, however late it commits: where a position is missing
/// and somebody could still bring it, the tail waits, and says on stderr for whom. Without --follow
/// it ends when everything that can be seen was printed. The last line on stderr says where to go on.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff journal tail\n  \
    sendoff journal tail --after 4711 --type wallet.opened --type transferred\n  \
    sendoff journal tail --from-now --follow --tag wallet_id=w1 | jq .payload\n\n\
    Exit status: 0 done, or ended by a signal or by whoever read it; 1 a row was no fact any more and \
    was printed with its error; 2 failed.")]
pub(super) struct Options {
    #[command(flatten)]
    database: Database,
    /// Begin after this position. The default is the beginning
    #[arg(long, value_name = "POSITION")]
    after: Option<Position>,
    /// Begin with what is appended from now on
    #[arg(long, conflicts_with = "after", requires = "follow")]
    from_now: bool,
    /// Go on with what comes, until Ctrl-C or a request to end
    #[arg(long)]
    follow: bool,
    /// Only facts of this type; given several times, of any of them
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only facts with this tag; given several times, with all of them
    #[arg(long = "tag", value_name = "KEY=VALUE")]
    tags: Vec<Tag>,
    /// How often to look for what is new
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "500ms")]
    every: Duration,
}

const BATCH: usize = 1_000;
const UNREADABLE: u8 = 1;

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, after, from_now, follow, types, tags, every } = options;
    let item = types.into_iter().fold(Item::any(), Item::of_type);
    let query = Query::of(tags.into_iter().fold(item, Item::tagged));
    query.check()?;
    let journal = Opened::of(database).await?.journal;
    let cancel = cancelled_by_signal()?;
    let tail = TailOptions { batch: BATCH, interval: every, ..TailOptions::default() };
    let mut reader = if from_now {
        journal.tail_from_now(tail).await?
    } else {
        journal.tail(after.unwrap_or(Position::START), tail).await?
    };
    let mut said = Said::default();
    let mut unreadable = false;
    loop {
        let look = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            look = reader.look() => look,
        };
        let batch = look.with_context(|| format!("go on with --after {}", reader.at()))?;
        said.following(follow && from_now);
        let mut read_on = true;
        for row in &batch.rows {
            unreadable |= row.recorded.is_err();
            // What cannot be read may be meant.
            let meant = row.recorded.as_ref().map_or(true, |fact| query.selects(fact));
            read_on &= !meant || output::stream(&fact::line(row).to_string())?;
        }
        if !read_on {
            break;
        }
        let idle = batch.rows.is_empty() && batch.gap.is_none();
        if idle && !follow {
            break;
        }
        said.waiting(&batch);
        let pause = match (idle, batch.waits_for.is_empty()) {
            (true, _) => every,
            (false, false) if batch.rows.is_empty() => tail.gap_interval,
            _ => continue,
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    output::note(&format!("everything up to {0} was read; go on with --after {0}", reader.at()));
    Ok(if unreadable { ExitCode::from(UNREADABLE) } else { ExitCode::SUCCESS })
}

/// What whoever watches was told already.
#[derive(Default)]
struct Said {
    following: bool,
    waits_for: Vec<HolderId>,
}

impl Said {
    /// From its first look on nothing is missed.
    fn following(&mut self, wanted: bool) {
        if wanted && !self.following {
            output::note("following from now on");
            self.following = true;
        }
    }

    /// Again only when it is for somebody else.
    fn waiting(&mut self, batch: &Batch) {
        if batch.waits_for == self.waits_for {
            return;
        }
        self.waits_for.clone_from(&batch.waits_for);
        if let (Some((first, last)), [_, ..]) = (batch.gap, &*self.waits_for) {
            let names: Vec<_> = self.waits_for.iter().map(HolderId::as_str).collect();
            output::note(&format!(
                "waiting at positions {first} to {last} for {}; `sendoff doctor` says more",
                names.join(", ")
            ));
        }
    }
}
