//! `sendoff events audit`: what operators did.

use std::process::ExitCode;

use clap::Args;
use sendoff::EventId;
use sendoff::letters::AuditEntry;
use serde_json::{Value, json};

use super::NOTHING;
use super::opened::opened;
use crate::database::Database;
use crate::output;

/// Show what operators did, the latest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff events audit --limit 20\n  \
    sendoff events audit --event 01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b --json\n\n\
    Exit status: 0 there is something, 2 failed, 3 nothing was done.")]
pub(super) struct Options {
    #[command(flatten)]
    database: Database,
    /// Only what was done to this event
    #[arg(long, value_name = "ID")]
    event: Option<EventId>,
    /// Not more than so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// A line of JSON for each
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let letters = opened(options.database).await?;
    let (mut before, mut left, mut any) = (None, options.limit, false);
    while left > 0 {
        let page = letters.audit(options.event, before, left).await?;
        left -= page.entries.len().min(left);
        for entry in &page.entries {
            any = true;
            let line = if options.json { line(entry).to_string() } else { sentence(entry) };
            if !output::stream(&line)? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    if !any {
        output::note("nothing was done");
        return Ok(ExitCode::from(NOTHING));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn line(entry: &AuditEntry) -> Value {
    json!({
        "seq": entry.seq,
        "at": entry.at.to_string(),
        "action": entry.action.name(),
        "actor": entry.actor,
        "reason": entry.reason,
        "event_id": entry.event,
        "event_type": entry.event_type,
        "attempts": entry.attempts,
        "last_error": entry.last_error,
        "subject": entry.subject,
    })
}

pub(super) fn sentence(entry: &AuditEntry) -> String {
    let AuditEntry { at, action, actor, reason, .. } = entry;
    let what = match (&entry.event, &entry.subject) {
        (Some(event), Some(subject)) => format!(" {subject} without {event}"),
        (Some(event), None) => format!(" {event}"),
        (None, Some(subject)) => format!(" {subject}"),
        (None, None) => String::new(),
    };
    format!("{at} {actor}: {action}{what}: {reason}")
}
