//! `sendoff consume-one`: handles exactly one due event, by printing it or by running a command.

pub(crate) mod command;
pub(crate) mod view;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use sendoff::options::{HandlerOptions, RetryOptions};
use sendoff::relay::{BatchReport, Relay, RelayOptions, RelayStore};
use sendoff::retry::Linear;
use sendoff::{Delivery, Failure, HandlerResult};
use serde_json::json;

use crate::database::Database;
use crate::output;
use crate::signals::Signals;

/// Handle exactly one due event
///
/// With `--ack` the event is printed as one line of JSON and counts as handled. With a command, that
/// gets the payload on its standard input, byte by byte, and the rest in environment
/// variables: SENDOFF_EVENT_ID, SENDOFF_EVENT_TYPE, SENDOFF_ATTEMPT, SENDOFF_CONTENT_TYPE,
/// SENDOFF_AGGREGATE_TYPE, SENDOFF_AGGREGATE_ID, SENDOFF_TENANT_ID, SENDOFF_ORDERING_KEY, SENDOFF_CREATED_AT,
/// SENDOFF_OCCURRED_AT and SENDOFF_HEADERS (JSON). If it exits with 0 the event is handled; otherwise
/// it is tried again later, a minute for each attempt so far, and is dead after the last one.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes:\n  \
    0  one event was handled\n  \
    1  one event was due, and handling it failed: it will be tried again, or is dead\n  \
    2  the command could not do its work\n  \
    3  nothing was due\n\n\
    Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff consume-one --ack\n  \
    sendoff consume-one --database-url sqlite:shop.db -- ./ship --now\n  \
    while sendoff consume-one -- ./ship; do :; done")]
pub(crate) struct Options {
    #[command(flatten)]
    database: Database,
    /// Print the event and count it as handled, without a command. It will not come again
    #[arg(long, conflicts_with = "command")]
    ack: bool,
    /// Say what became of the event as one line of JSON on stdout, the last one
    #[arg(long)]
    json: bool,
    /// How many attempts an event has in all
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: u32,
    /// Seconds that the command may take; it is killed then, which is a failed attempt
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// The command that handles the event, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const FAILED: u8 = 1;
const NOTHING_DUE: u8 = 3;

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, ack, json, max_attempts, timeout, command } = options;
    if command.is_empty() && !ack {
        bail!(
            "what should handle the event? Give a command after `--`, or --ack to print the event and \
             count it as handled"
        );
    }
    let options = RelayOptions {
        batch: 1,
        workers: 1,
        retry: RetryOptions { max_attempts, ..RetryOptions::default() },
        handler: HandlerOptions {
            timeout: timeout.map(Duration::from_secs),
            ..HandlerOptions::default()
        },
        ..RelayOptions::default()
    };
    let one = One { options, command: Arc::new(command), json };
    let store = database.outbox().await?;
    let ended = one.consume(store.clone()).await;
    store.close().await;
    ended
}

struct One {
    options: RelayOptions,
    command: Arc<Vec<OsString>>,
    json: bool,
}

/// What the handler saw.
#[derive(Debug, Clone)]
struct Seen {
    delivery: Delivery,
    error: Option<String>,
    /// The command could not even be started: no fault of the event's.
    unstarted: bool,
}

impl One {
    async fn consume(self, store: impl RelayStore + Clone) -> anyhow::Result<ExitCode> {
        let seen: Arc<Mutex<Option<Seen>>> = Arc::default();
        let (command, noted) = (self.command.clone(), seen.clone());
        let handler = move |delivery: Delivery| {
            let (command, noted) = (command.clone(), noted.clone());
            async move {
                // Also where the time limit cuts it off.
                note(&noted, Seen { delivery: delivery.clone(), error: None, unstarted: false });
                let result = handle(&delivery, &command).await;
                let error = result.as_ref().err().map(Failure::report);
                let unstarted = result.as_ref().is_err_and(|failure| {
                    failure.error().downcast_ref::<command::NotStarted>().is_some()
                });
                note(&noted, Seen { delivery, error, unstarted });
                result
            }
        };
        let relay =
            Relay::builder(store.clone()).options(self.options.clone()).retry(Linear::default());
        let relay = relay.build(handler)?;
        let mut signals = Signals::listen()?;
        let consumed = relay.process_once_until(signals.next()).await;
        let report = consumed.context(
            "no event could be taken, or its end not be stored; `sendoff migrate` makes the tables",
        )?;
        if report.is_none() {
            for pause in store.pauses().await? {
                output::note(&format!("{} is paused: {}", pause.scope, pause.reason));
            }
        }
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.tell(report, seen)
    }

    fn tell(&self, report: Option<BatchReport>, seen: Option<Seen>) -> anyhow::Result<ExitCode> {
        let outcome = report.map_or("none", |report| match report {
            BatchReport { done: 1.., .. } => "processed",
            BatchReport { retried: 1.., .. } => "pending",
            BatchReport { dead: 1.., .. } => "failed",
            BatchReport { fenced: 1.., .. } => "fenced",
            BatchReport { unsettled: 1.., .. } => "unsettled",
            _ => "untouched",
        });
        let (id, topic) = seen.as_ref().map_or((None, None), |seen| {
            (Some(seen.delivery.id().to_string()), Some(seen.delivery.event_type().to_owned()))
        });
        let cut_off = || {
            let limit = self.options.handler.timeout.filter(|_| outcome != "processed")?;
            Some(format!("it did not finish within {} s, and was killed", limit.as_secs()))
        };
        let error = seen.as_ref().and_then(|seen| seen.error.clone().or_else(cut_off));
        if self.json {
            let attempt = seen.as_ref().map(|seen| seen.delivery.attempt);
            let line = json!({
                "outcome": outcome, "event_id": id, "event_type": topic, "attempt": attempt,
                "error": error,
            });
            output::data(&line.to_string())?;
        } else {
            let id = id.unwrap_or_default();
            let error = error.unwrap_or_default();
            match outcome {
                "none" => output::note("nothing is due"),
                "processed" => output::note(&format!("{id} is processed")),
                "pending" => {
                    output::note(&format!("{id} failed, and will be tried again: {error}"))
                }
                "failed" => output::note(&format!("{id} failed for good: {error}")),
                "fenced" => output::note(&format!("{id} was taken over by somebody else")),
                _ => output::note(&format!("{id} was not finished, and is due as before")),
            }
        }
        if let Some(seen) = seen
            && seen.unstarted
        {
            bail!("{}", seen.error.unwrap_or_default());
        }
        Ok(match outcome {
            "processed" => ExitCode::SUCCESS,
            "none" => ExitCode::from(NOTHING_DUE),
            _ => ExitCode::from(FAILED),
        })
    }
}

fn note(noted: &Mutex<Option<Seen>>, seen: Seen) {
    *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
}

async fn handle(delivery: &Delivery, command: &[OsString]) -> HandlerResult {
    match command.split_first() {
        Some((program, arguments)) => command::run(program, arguments, delivery).await,
        None => Ok(output::data(&view::line(delivery).to_string())?),
    }
}
