//! `sendoff peek`: shows what comes next, and takes nothing.

use std::process::ExitCode;

use clap::Args;
use sendoff::store::{InspectStore, Row};
use serde_json::{Value, json};

use crate::database::Database;
use crate::output;
use crate::payload::payload;

/// Show the events that come next, and take none of them
///
/// In the order in which they are claimed: due ones first, then those that are held, delayed or to be tried
/// again later, then those in line, which wait for their key. One line of JSON for each. Changes nothing:
/// `consume-one` handles an event, `events` is for dead letters, `keys` says why a key stands still.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff peek\n  \
    sendoff peek --limit 100 | jq -r .event_type | sort | uniq -c\n  \
    sendoff peek --payload --limit 1\n\n\
    Exit codes: 0 there are events, 2 they could not be looked at, 3 there are none.")]
pub(crate) struct Options {
    #[command(flatten)]
    database: Database,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// With their payloads, which may be large and secret
    #[arg(long)]
    payload: bool,
}

const NOTHING: u8 = 3;

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, limit, payload } = options;
    let store = database.outbox().await?;
    let rows = store.peek(limit.into()).await?;
    if rows.is_empty() {
        output::note("nothing waits to be delivered");
        return Ok(ExitCode::from(NOTHING));
    }
    for row in &rows {
        if !output::stream(&line(row, payload).to_string())? {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(row: &Row, with_payload: bool) -> Value {
    let event = &row.event;
    let in_line = row.is_in_line();
    let mut line = json!({
        "event_id": event.id().to_string(),
        "event_type": event.event_type(),
        "aggregate_type": event.aggregate_type(),
        "aggregate_id": event.aggregate_id(),
        "tenant_id": event.tenant_id(),
        "status": row.status.name(),
        "attempts": row.attempts,
        // What is in line waits for its key, and is due at no time.
        "due_at": (!in_line).then(|| row.due_at.to_string()),
        "in_line": in_line,
        "ordering_key": event.ordering_key(),
        "created_at": row.created_at.to_string(),
        "held_by": row.locked_by,
        "unavailable_since": row.waiting.for_target.map(|time| time.to_string()),
        "unroutable_since": row.waiting.for_handler.map(|time| time.to_string()),
        "error": row.last_error,
        "payload_bytes": event.payload().len(),
    });
    if with_payload {
        line["payload"] = payload(event.content_type(), event.payload());
    }
    line
}
