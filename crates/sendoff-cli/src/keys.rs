//! `sendoff keys`: shows keys that stand still, says why, and lets them go on.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand};
use sendoff::EventId;
use sendoff::keys::{FirstEvent, KeyFate, KeyStanding, KeyState, OrderKeys, Parking};
use serde_json::{Value, json};

use crate::database::Database;
use crate::output;
use crate::pages::{self, Page, Wanted};
use crate::pause::Note;

/// Nothing was changed: somebody has it locked, or it is not as it was said to be.
const LEFT: u8 = 1;
/// Nothing was there that was asked for.
const NOTHING: u8 = 3;

/// Show keys that are parked, say why a key stands still, and let one go on
///
/// Events of one key are delivered one after the other. When one of them is dead, its key is parked: the later
/// ones wait until somebody decides. `sendoff events requeue` and `discard` of the dead event keep the order;
/// `sendoff keys resume` lets the key go on without it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff keys list\n  \
    sendoff keys show order:4711\n  \
    sendoff keys resume order:4711 --reason 'the order was mended by hand'")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Described where its options are.
    List(List),
    Show(Show),
    Resume(Resume),
}

/// Show the keys that are parked, in their order
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff keys list\n  \
    sendoff keys list --json --limit 1000 | jq -r .dead_error | sort | uniq -c\n  \
    sendoff keys list --count\n\n\
    Exit status: 0 there are some, 2 failed, 3 there are none.")]
struct List {
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    wanted: Wanted,
}

/// Show how a key stands: what it waits for, and what waits in it
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff keys show order:4711\n  \
    sendoff keys show order:4711 --json\n\n\
    Exit status: 0 something of it is owed a delivery or parked, 2 failed, 3 nothing is.")]
struct Show {
    #[command(flatten)]
    database: Database,
    /// The key
    key: String,
    /// As one line of JSON
    #[arg(long)]
    json: bool,
}

/// Let a parked key go on without the dead event that parks it
///
/// Its other events are delivered from now on. The dead one stays dead: requeued later, it comes after whatever
/// overtook it. To keep the order, requeue or discard it instead.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff keys resume order:4711 --reason 'the order was mended by hand'\n  \
    sendoff keys resume order:4711 --event 01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b --reason 'seen, does no harm'\n\n\
    Exit status: 0 done, 1 another event parks it or somebody has it locked, 2 failed, 3 it is not parked.")]
struct Resume {
    #[command(flatten)]
    database: Database,
    /// The key
    key: String,
    /// Only if this dead event parks it, as it was seen before
    #[arg(long, value_name = "ID")]
    event: Option<EventId>,
    #[command(flatten)]
    note: Note,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    match options.command {
        Command::List(options) => list(options).await,
        Command::Show(options) => show(options).await,
        Command::Resume(options) => resume(options).await,
    }
}

/// The keys of an outbox that is there, whatever it lives in.
async fn opened(database: Database) -> anyhow::Result<OrderKeys> {
    Ok(OrderKeys::new(Arc::new(database.outbox().await?)))
}

async fn list(options: List) -> anyhow::Result<ExitCode> {
    let keys = opened(options.database).await?;
    let found = if options.wanted.count {
        let count = keys.count_parked().await?;
        output::data(&if options.wanted.json {
            json!({ "keys": count.counted(), "exact": count.is_exact() }).to_string()
        } else {
            format!("{count} parked keys")
        })?;
        count.counted() > 0
    } else {
        listed(&keys, options.wanted.limit, options.wanted.json).await?
    };
    if !found {
        output::note("no key is parked");
        return Ok(ExitCode::from(NOTHING));
    }
    Ok(ExitCode::SUCCESS)
}

async fn listed(keys: &OrderKeys, limit: usize, json: bool) -> anyhow::Result<bool> {
    let page = async |after: Option<String>, left| {
        let page = keys.parked(after.as_deref(), left).await?;
        Ok(Page { items: page.keys, next: page.next })
    };
    pages::shown(limit, page, |key| if json { line(key).to_string() } else { sentence(key) }).await
}

async fn show(options: Show) -> anyhow::Result<ExitCode> {
    let standing = opened(options.database).await?.show(&options.key).await?;
    let idle = standing.state == KeyState::Idle;
    if options.json {
        output::data(&line(&standing).to_string())?;
    } else if !idle {
        output::data(&explained(&standing)?)?;
    }
    if idle {
        output::note(&format!("no event of {} is owed a delivery", standing.key));
        return Ok(ExitCode::from(NOTHING));
    }
    Ok(ExitCode::SUCCESS)
}

async fn resume(options: Resume) -> anyhow::Result<ExitCode> {
    const HINT: &str = "it needs the rights to update outbox_key and to insert into outbox_audit";
    let Resume { database, key, event, note, json } = options;
    let note = note.checked()?;
    let fate = opened(database).await?.resume(&key, event, &note).await.context(HINT)?;
    let (word, by, said, code) = match fate {
        KeyFate::Resumed { event } => (
            "resumed",
            Some(event),
            format!("{key} goes on; the dead event {event} stays, for `sendoff events`"),
            ExitCode::SUCCESS,
        ),
        KeyFate::NotParked => {
            ("not_parked", None, format!("{key} is not parked"), ExitCode::from(NOTHING))
        }
        KeyFate::ParkedBy { event } => (
            "parked_by_another",
            Some(event),
            format!("{key} is as it was: the dead event {event} parks it"),
            ExitCode::from(LEFT),
        ),
        _ => (
            "busy",
            None,
            format!("{key} is as it was: somebody has it locked"),
            ExitCode::from(LEFT),
        ),
    };
    output::data(&if json {
        json!({ "key": key, "fate": word, "event_id": by }).to_string()
    } else {
        said
    })?;
    Ok(code)
}

fn line(standing: &KeyStanding) -> Value {
    let KeyStanding { key, state, events, first } = standing;
    let (held_by, until) = match state {
        KeyState::Held { by, until } => (Some(by), Some(until.to_string())),
        KeyState::Waiting { until } => (None, Some(until.to_string())),
        _ => (None, None),
    };
    let parking = standing.parking();
    let letter = parking.and_then(|parking| parking.letter.as_ref());
    let first = first.as_ref();
    json!({
        "key": key,
        "state": state.name(),
        "events": events.counted(),
        "exact": events.is_exact(),
        "parked_by": parking.map(|parking| parking.event),
        "parked_since": parking.map(|parking| parking.since.to_string()),
        "dead_event_type": letter.map(|letter| &letter.event_type),
        "dead_attempts": letter.map(|letter| letter.attempts),
        "dead_error": letter.and_then(|letter| letter.last_error.as_ref()),
        "held_by": held_by,
        "until": until,
        "first_event_id": first.map(|first| first.id),
        "first_event_type": first.map(|first| &first.event_type),
        "first_created_at": first.map(|first| first.created_at.to_string()),
        "first_age_seconds": first.map(|first| first.age.as_secs()),
        "first_attempts": first.map(|first| first.attempts),
        "first_error": first.and_then(|first| first.last_error.as_ref()),
    })
}

/// One line for each key, whatever its error looks like.
fn sentence(standing: &KeyStanding) -> String {
    let KeyStanding { key, events, .. } = standing;
    let why = standing.parking().map_or_else(String::new, why).replace('\n', " ");
    format!("{key}: {events} events wait; {why}")
}

fn why(Parking { event, since, letter }: &Parking) -> String {
    let mut why = format!("parked since {since} behind the dead event {event}");
    if let Some(letter) = letter {
        let error = letter.last_error.as_deref().unwrap_or("no error was kept");
        // Writing to a string cannot fail.
        let _ = write!(why, " ({}, {} attempts): {error}", letter.event_type, letter.attempts);
    }
    why
}

fn explained(standing: &KeyStanding) -> Result<String, std::fmt::Error> {
    let KeyStanding { key, state, events, first } = standing;
    let mut text = match state {
        KeyState::Parked(parking) => format!("{key} is {}", why(parking)),
        KeyState::Held { by, until } => {
            format!("{key} is held by {by} until {until}, unless that is extended")
        }
        KeyState::Waiting { until } => {
            format!("{key} waits until {until}: its first event is tried again then, or is delayed")
        }
        _ => format!("{key} is in line: a node that delivers takes it next"),
    };
    write!(text, "\n{events} events wait")?;
    if let Some(FirstEvent { id, event_type, created_at, age, attempts, last_error }) = first {
        let seconds = age.as_secs();
        write!(text, ", the first is {id} ({event_type}), written {created_at}, {seconds} s ago")?;
        if let Some(error) = last_error {
            write!(text, "; {attempts} attempts failed: {error}")?;
        }
    }
    if let Some(Parking { event, .. }) = standing.parking() {
        write!(
            text,
            "\nto keep the order: `sendoff events requeue {event}` or `sendoff events discard {event}`\n\
             to go on without it: `sendoff keys resume {key} --event {event}`"
        )?;
    }
    Ok(text)
}
