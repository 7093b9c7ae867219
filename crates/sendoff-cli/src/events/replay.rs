//! `sendoff events replay`: delivered events, handed once more to a command, or printed.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{MultiProgress, ProgressBar};
use sendoff::event::Origin;
use sendoff::replay::{
    LetterCount, OnReplayFailure, Replay, ReplayError, ReplayFault, ReplayFilter, ReplayMark,
    ReplayOptions, Replayed,
};
use sendoff::{Delivery, Failure, HandlerResult, Timestamp};
use serde_json::{Value, json};

use super::NOTHING;
use super::act::bar_for;
use super::chosen::About;
use crate::consume_one::{command, view};
use crate::database::Database;
use crate::output;
use crate::signals::{INTERRUPTED, cancelled_by_signal};

/// Hand delivered events once more to a command, or print them
///
/// Those of one ordering key in their order, keys side by side; events without a key in the order in which they were
/// delivered. Nothing is written to the outbox. A command is run for each event as by `sendoff consume-one`: the
/// payload on its standard input, the rest in environment variables, among them SENDOFF_ORDERING_KEY, and
/// SENDOFF_DONE_AT, which only a replay has. Without a command and without --print it is a dry run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff events replay --type order.placed --done-from 2026-01-31T08:00:00Z --dry-run\n  \
    sendoff events replay --type order.placed --per-second 50 -- ./rebuild-index\n  \
    sendoff events replay --key customer-42 --print > events.jsonl\n  \
    sendoff events replay --all --skip-failed --from-mark 1769846400000000.1769842800000000.42 -- ./rebuild-index\n\n\
    Exit status: 0 done, 1 some are left or were skipped (an event failed, or it was interrupted: the mark says \
    where to go on), 2 failed, 3 no such event is kept.")]
pub(super) struct Options {
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    filter: Filter,
    /// Print each event as a line of JSON, instead of a command
    #[arg(long, conflicts_with_all = ["command", "json"])]
    print: bool,
    /// Only say how many there are, counted up to 10,000 and for ten seconds
    #[arg(long)]
    dry_run: bool,
    /// Go on where another replay with the same filter came to, by the mark that it printed
    #[arg(long, value_name = "MARK")]
    from_mark: Option<ReplayMark>,
    /// Not more than so many in a second
    #[arg(long, value_name = "COUNT")]
    per_second: Option<usize>,
    /// End when so many are done
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Keys at once; events without a key are one of them
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    keys_at_once: usize,
    /// How many attempts an event has
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    max_attempts: u32,
    /// Seconds that the command may take for an event; it is killed then, which is a failed attempt
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Go on after an event that has no attempt left; it is reported. Otherwise the replay ends there
    #[arg(long)]
    skip_failed: bool,
    /// Report as one line of JSON, the last one
    #[arg(long)]
    json: bool,
    /// The command that gets each event, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Delivered events by what is true of all of them.
#[derive(Debug, Clone, Args)]
struct Filter {
    /// Only events with this ordering key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    about: About,
    /// Only those that were delivered at this time or later, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME")]
    done_from: Option<Timestamp>,
    /// Only those that were delivered before this time
    #[arg(long, value_name = "TIME")]
    done_to: Option<Timestamp>,
    /// All that are kept
    #[arg(long)]
    all: bool,
}

impl Filter {
    fn chosen(self) -> anyhow::Result<ReplayFilter> {
        let filter = ReplayFilter {
            ordering_key: self.key,
            event_type: self.about.event_type,
            aggregate_type: self.about.aggregate_type,
            aggregate_id: self.about.aggregate_id,
            tenant_id: self.about.tenant,
            done_from: self.done_from,
            done_to: self.done_to,
        };
        match (filter.is_everything(), self.all) {
            (true, false) => bail!("which events? Give what is true of them, or --all"),
            (false, true) => bail!("give what is true of the events, or --all: one of the two"),
            _ => Ok(filter),
        }
    }
}

const HINT: &str = "it needs the right to select rows of outbox_event";

pub(super) async fn run(options: Options, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    let filter = options.filter.chosen()?;
    let replay_options = ReplayOptions {
        keys_at_once: options.keys_at_once,
        per_second: options.per_second,
        max_attempts: options.max_attempts,
        timeout: Some(Duration::from_secs(options.timeout)),
        on_failure: match options.skip_failed {
            true => OnReplayFailure::Skip,
            false => OnReplayFailure::Stop,
        },
        limit: options.limit,
        from: options.from_mark,
        ..ReplayOptions::default()
    };
    let store = options.database.outbox().await?;
    let replay = Replay::new(Arc::new(store), filter, replay_options)?;
    let found = replay.dry_run().await.context(HINT)?;
    let means = if options.print { Some(Means::Print) } else { Means::command(options.command) };
    if found.counted() == 0 && found.is_exact() {
        output::note("no such event is kept: it was never delivered, or forgotten since");
        return Ok(ExitCode::from(NOTHING));
    }
    match means {
        Some(means) if !options.dry_run => {
            output::note(&format!("{found} delivered events to be replayed"));
            replayed(replay, found, Arc::new(means), screen, options.json).await
        }
        means => foretold(found, means.is_none() && !options.dry_run, options.json),
    }
}

/// What gets the events.
enum Means {
    Print,
    Command(OsString, Vec<OsString>),
}

impl Means {
    fn command(mut words: Vec<OsString>) -> Option<Self> {
        (!words.is_empty()).then(|| {
            let program = words.remove(0);
            Self::Command(program, words)
        })
    }

    async fn take(&self, delivery: &Delivery) -> HandlerResult {
        match self {
            Self::Command(program, arguments) => command::run(program, arguments, delivery).await,
            Self::Print if output::stream(&line(delivery).to_string())? => Ok(()),
            Self::Print => Err(Failure::dead("nobody reads what is printed any more")),
        }
    }
}

fn line(delivery: &Delivery) -> Value {
    let mut line = view::line(delivery);
    line["ordering_key"] = json!(delivery.ordering_key());
    if let Origin::Replay { done_at } = delivery.origin {
        line["done_at"] = json!(done_at.to_string());
    }
    line
}

fn foretold(found: LetterCount, wants_means: bool, json: bool) -> anyhow::Result<ExitCode> {
    let (events, exact) = (found.counted(), found.is_exact());
    output::data(&if json {
        json!({ "dry_run": true, "events": events, "exact": exact }).to_string()
    } else {
        format!("{found} delivered events would be replayed")
    })?;
    if wants_means {
        output::note("to do it, give a command after `--` that gets each event, or --print");
    }
    Ok(ExitCode::SUCCESS)
}

async fn replayed(
    replay: Replay,
    found: LetterCount,
    means: Arc<Means>,
    screen: MultiProgress,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let bar: ProgressBar = screen.add(bar_for(found));
    let replay = replay.on_progress({
        let bar = bar.clone();
        move |so_far| {
            bar.set_position(so_far.over());
            bar.set_message(format!("{} events replayed", so_far.delivered));
        }
    });
    let prints = matches!(*means, Means::Print);
    let handler = move |delivery: Delivery| {
        let means = Arc::clone(&means);
        async move { means.take(&delivery).await }
    };
    let (cancel, began) = (cancelled_by_signal()?, Instant::now());
    let (so_far, fault) = match replay.run_until(handler, cancel.cancelled()).await {
        Ok(so_far) => (so_far, None),
        Err(ReplayError { so_far, source }) => (*so_far, Some(source)),
    };
    bar.finish_and_clear();
    let told = summary(&so_far, fault.as_ref(), began.elapsed(), json);
    // Lines of events are not mixed with anything else.
    if prints {
        output::note(&told)
    } else {
        output::data(&told)?
    }
    match fault {
        Some(ReplayFault::Handler(failure)) => {
            output::note(&failure.to_string());
            Ok(ExitCode::from(INTERRUPTED))
        }
        Some(fault) => Err(anyhow::Error::from(fault).context(HINT)),
        None if so_far.finished && so_far.skipped == 0 => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::from(INTERRUPTED)),
    }
}

fn summary(so_far: &Replayed, fault: Option<&ReplayFault>, took: Duration, json: bool) -> String {
    let Replayed { delivered, skipped, unreadable, late, finished, .. } = so_far;
    let (mark, seconds) = (so_far.mark.map(|mark| mark.to_string()), took.as_secs_f64());
    if json {
        let failure = |id: &dyn ToString, attempts: u32, error: &str| json!({ "event_id": id.to_string(), "attempts": attempts, "error": error });
        let stopped_by = match fault {
            Some(ReplayFault::Handler(f)) => failure(&f.id, f.attempts, &f.error),
            _ => Value::Null,
        };
        let failures: Vec<Value> =
            so_far.failures.iter().map(|f| failure(&f.id, f.attempts, &f.error)).collect();
        return json!({
            "dry_run": false,
            "delivered": delivered,
            "skipped": skipped,
            "unreadable": unreadable,
            "late": late,
            "failures": failures,
            "stopped_by": stopped_by,
            "mark": mark,
            "finished": finished,
            "seconds": seconds,
        })
        .to_string();
    }
    let mut told = format!("{delivered} events replayed, {skipped} skipped, {seconds:.1} s");
    for failure in &so_far.failures {
        told.push_str(&format!("\n{failure}"));
    }
    if *unreadable > 0 {
        told.push_str(&format!("\n{unreadable} could not be read any more"));
    }
    if *late > 0 {
        told.push_str(&format!(
            "\n{late} came after later ones of their key, as they were delivered"
        ));
    }
    if let Some(mark) = mark.filter(|_| !finished) {
        told.push_str(&format!("\nmore are left: go on with --from-mark {mark}"));
    }
    told
}
