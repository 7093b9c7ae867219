//! `sendoff events show`: one event with all that is known of it.

use std::process::ExitCode;

use clap::Args;
use sendoff::letters::{AuditEntry, EventRecord, PayloadWanted, ShownEvent};
use sendoff::{EventId, Timestamp};
use serde_json::{Map, Value, json};

use super::NOTHING;
use super::audit;
use super::opened::opened;
use crate::database::Database;
use crate::output;
use crate::payload::payload;

/// Show one event, dead or not, and what operators did to it
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff events show 01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b\n  \
    sendoff events show 01JX3M8KHZ5T7Q9V2B4D6F8G0H --payload --json\n\n\
    Exit status: 0 there it is, 2 failed, 3 there is no such event.")]
pub(super) struct Options {
    #[command(flatten)]
    database: Database,
    /// The event's id, as UUID or ULID
    id: EventId,
    /// With its payload, which may be large, and secret
    #[arg(long)]
    payload: bool,
    /// As one line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let letters = opened(options.database).await?;
    let wanted = if options.payload { PayloadWanted::Yes } else { PayloadWanted::No };
    let Some(shown) = letters.show(options.id, wanted).await? else {
        output::note("there is no such event");
        return Ok(ExitCode::from(NOTHING));
    };
    output::data(&if options.json { line(&shown).to_string() } else { lines(&shown) })?;
    Ok(ExitCode::SUCCESS)
}

fn line(shown: &ShownEvent) -> Value {
    let entries: Vec<Value> = shown.audit.iter().map(audit::line).collect();
    let event = shown.record.as_ref().map(|record| Value::Object(fields(record)));
    json!({ "event": event, "audit": entries })
}

fn fields(record: &EventRecord) -> Map<String, Value> {
    let time = |time: Option<Timestamp>| json!(time.map(|time| time.to_string()));
    let headers = record
        .headers
        .as_deref()
        .map(|text| serde_json::from_str::<Value>(text).unwrap_or_else(|_| Value::from(text)));
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("event_id", json!(record.id));
    add("seq", json!(record.seq));
    add("event_type", json!(record.event_type));
    add("aggregate_type", json!(record.aggregate_type));
    add("aggregate_id", json!(record.aggregate_id));
    add("tenant_id", json!(record.tenant_id));
    add("ordering_key", json!(record.ordering_key));
    add("shard", json!(record.shard));
    add("status", json!(record.status.name()));
    add("attempts", json!(record.attempts));
    add("losses", json!(record.losses));
    add("occurred_at", time(Some(record.occurred_at)));
    add("created_at", time(Some(record.created_at)));
    add("due_at", time(record.due_at));
    add("done_at", time(record.done_at));
    add("unavailable_since", time(record.unavailable_since));
    add("unroutable_since", time(record.unroutable_since));
    add("delayed_until", time(record.delayed_until));
    add("locked_by", json!(record.locked_by));
    add("last_error", json!(record.last_error));
    add("headers", json!(headers));
    add("content_type", json!(record.content_type));
    add("payload_bytes", json!(record.payload_bytes));
    if let Some(bytes) = &record.payload {
        add("payload", payload(&record.content_type, bytes));
    }
    fields
}

/// A line for each column that says something, and for each entry of the audit.
fn lines(shown: &ShownEvent) -> String {
    let mut lines: Vec<String> = Vec::new();
    match &shown.record {
        Some(record) => {
            for (name, value) in fields(record).into_iter().filter(|(_, value)| !value.is_null()) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                lines.push(format!("{name:17} {text}"));
            }
        }
        None => lines.push("the event is not there any more".to_owned()),
    }
    let entries: &[AuditEntry] = &shown.audit;
    lines.extend(entries.iter().map(audit::sentence));
    lines.join("\n")
}
