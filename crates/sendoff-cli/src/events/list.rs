//! `sendoff events list`: dead letters, page by page.

use std::process::ExitCode;

use clap::Args;
use sendoff::letters::{DeadLetters, Letter, LetterFilter, LetterOrder};
use serde_json::{Value, json};

use super::NOTHING;
use super::chosen::Filter;
use super::opened::opened;
use crate::database::Database;
use crate::output;
use crate::pages::{self, Page, Wanted};

/// Show dead letters, those that died first before the others
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff events list --type mail.wanted --newest --limit 20\n  \
    sendoff events list --died-from 2026-01-31T22:00:00Z --min-attempts 10 --json\n  \
    sendoff events list --error 'connection reset' --count\n\n\
    Exit status: 0 there are some, 2 failed, 3 there are none.")]
pub(super) struct Options {
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    filter: Filter,
    /// Those that died last before the others
    #[arg(long)]
    newest: bool,
    #[command(flatten)]
    wanted: Wanted,
}

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let filter = LetterFilter::from(options.filter);
    let letters = opened(options.database).await?;
    let found = if options.wanted.count {
        counted(&letters, &filter, options.wanted.json).await?
    } else {
        let order =
            if options.newest { LetterOrder::NewestFirst } else { LetterOrder::OldestFirst };
        shown(&letters, &filter, order, options.wanted.limit, options.wanted.json).await?
    };
    if !found {
        output::note("no such event is dead");
        return Ok(ExitCode::from(NOTHING));
    }
    Ok(ExitCode::SUCCESS)
}

async fn counted(letters: &DeadLetters, filter: &LetterFilter, json: bool) -> anyhow::Result<bool> {
    let count = letters.count(filter).await?;
    output::data(&if json {
        json!({ "letters": count.counted(), "exact": count.is_exact() }).to_string()
    } else {
        format!("{count} dead letters")
    })?;
    Ok(count.counted() > 0)
}

async fn shown(
    letters: &DeadLetters,
    filter: &LetterFilter,
    order: LetterOrder,
    limit: usize,
    json: bool,
) -> anyhow::Result<bool> {
    let page = async |after, left| {
        let page = letters.list(filter, order, after, left).await?;
        Ok(Page { items: page.letters, next: page.next })
    };
    pages::shown(
        limit,
        page,
        |letter| if json { line(letter).to_string() } else { sentence(letter) },
    )
    .await
}

fn line(letter: &Letter) -> Value {
    json!({
        "event_id": letter.id,
        "seq": letter.seq,
        "event_type": letter.event_type,
        "aggregate_type": letter.aggregate_type,
        "aggregate_id": letter.aggregate_id,
        "tenant_id": letter.tenant_id,
        "attempts": letter.attempts,
        "created_at": letter.created_at.to_string(),
        "died_at": letter.died_at.to_string(),
        "last_error": letter.last_error,
    })
}

fn sentence(letter: &Letter) -> String {
    let Letter { id, event_type, attempts, died_at, .. } = letter;
    // One line for each letter, whatever its error looks like.
    let error = letter.last_error.as_deref().unwrap_or("no error was kept").replace('\n', " ");
    format!("{id} {event_type}: died {died_at} after {attempts} attempts: {error}")
}
