//! `sendoff pause` and `sendoff resume`: what is not delivered for now.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use sendoff::pause::{AuditNote, Pause, PauseScope};
use sendoff::store::PauseStore;
use serde_json::{Value, json};

use crate::database::Database;
use crate::output;

/// Pause all delivery, one event type or one handler, or say what is paused
///
/// Every node has heard of it within a second. Writing goes on; what is paused waits in the table, uses up no
/// attempt, and is in nobody's way. Runs that have begun go on to their end. Without a choice nothing is
/// changed, and what is paused is shown.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff pause\n  \
    sendoff pause --type order.mailed --reason 'the mail provider has an incident'\n  \
    sendoff pause --handler billing --reason 'prices are being mended'\n  \
    sendoff pause --all --reason 'the database is being moved'\n\n\
    A handler has the name of its event type, unless its sink was given another one: the log names it.\n\n\
    Exit status: 0 done, or it was paused already; 2 failed.")]
pub(crate) struct PauseOptions {
    #[command(flatten)]
    order: Order,
}

/// Deliver again what was paused
///
/// It is delivered from now on, the oldest first. What is paused by another order as well goes on waiting.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff resume --type order.mailed --reason 'the incident is over'\n  \
    sendoff resume --all --reason 'done' --json\n\n\
    Exit status: 0 done, 1 that was not paused, 2 failed.")]
pub(crate) struct ResumeOptions {
    #[command(flatten)]
    order: Order,
}

/// What is to be paused or resumed, where, by whom and why.
#[derive(Debug, Args)]
struct Order {
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    note: Note,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct Choice {
    /// Everything
    #[arg(long)]
    all: bool,
    /// Events of this type, whatever they are about and whoever handles them
    #[arg(long = "type", value_name = "NAME")]
    event_type: Option<String>,
    /// What this handler receives, on the nodes that have it
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
}

impl Choice {
    fn scope(self) -> anyhow::Result<Option<PauseScope>> {
        Ok(match self {
            Self { all: true, .. } => Some(PauseScope::All),
            Self { event_type: Some(name), .. } => Some(PauseScope::event_type(name)?),
            Self { handler: Some(name), .. } => Some(PauseScope::handler(name)?),
            _ => None,
        })
    }
}

/// Who does something, and why.
#[derive(Debug, Args)]
pub(crate) struct Note {
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who does it, for the audit; unless it is said, the user of this session
    #[arg(long, value_name = "NAME", env = "SENDOFF_ACTOR")]
    actor: Option<String>,
}

impl Note {
    pub(crate) fn checked(self) -> anyhow::Result<AuditNote> {
        let reason = self.reason.context("why? Give --reason: the audit keeps it")?;
        let user = || std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok();
        let Some(actor) = self.actor.or_else(user).filter(|name| !name.trim().is_empty()) else {
            bail!("who are you? Give --actor or set SENDOFF_ACTOR: the audit keeps it");
        };
        Ok(AuditNote::new(actor, reason)?)
    }
}

/// Nothing was there to be changed.
const NOT_PAUSED: u8 = 1;

pub(crate) async fn pause(options: PauseOptions) -> anyhow::Result<ExitCode> {
    let Order { database, choice, note, json } = options.order;
    let Some(scope) = choice.scope()? else {
        if note.reason.is_some() {
            bail!("what is to be paused? Give --all, --type or --handler");
        }
        let store = opened(database).await?;
        Report::of(&*store, None).await?.show(json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let note = note.checked()?;
    let store = opened(database).await?;
    let changed = store.pause(&scope, &note).await?;
    if !changed {
        output::note(&format!("{scope} was paused already"));
    }
    Report::of(&*store, Some(changed)).await?.show(json)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn resume(options: ResumeOptions) -> anyhow::Result<ExitCode> {
    let Order { database, choice, note, json } = options.order;
    let scope = choice.scope()?;
    let scope = scope.context("what is to be resumed? Give --all, --type or --handler")?;
    let note = note.checked()?;
    let store = opened(database).await?;
    let changed = store.resume(&scope, &note).await?;
    if changed {
        output::note(&format!("{scope} goes on"));
    }
    Report::of(&*store, Some(changed)).await?.show(json)?;
    if changed {
        return Ok(ExitCode::SUCCESS);
    }
    output::note(&format!("{scope} was not paused; `sendoff pause` shows what is"));
    Ok(ExitCode::from(NOT_PAUSED))
}

/// An outbox that is there, whatever it lives in.
async fn opened(database: Database) -> anyhow::Result<Arc<dyn PauseStore>> {
    Ok(Arc::new(database.outbox().await?))
}

/// What is paused now.
struct Report {
    pauses: Vec<Pause>,
    /// Whether that was changed, if it was to be.
    changed: Option<bool>,
}

impl Report {
    async fn of(store: &dyn PauseStore, changed: Option<bool>) -> anyhow::Result<Self> {
        Ok(Self { pauses: store.pauses().await?, changed })
    }

    fn show(&self, json: bool) -> anyhow::Result<()> {
        if json {
            output::data(&self.json().to_string())?;
        } else if self.pauses.is_empty() {
            output::note("nothing is paused");
        } else {
            output::data(self.text()?.trim_end())?;
        }
        Ok(())
    }

    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let width = self.pauses.iter().map(|pause| pause.scope.to_string().chars().count()).max();
        for Pause { scope, since, actor, reason } in &self.pauses {
            let (scope, width) = (scope.to_string(), width.unwrap_or(0));
            writeln!(text, "{scope:width$}  since {since}  by {actor}: {reason}")?;
        }
        Ok(text)
    }

    fn json(&self) -> Value {
        let pause = |pause: &Pause| {
            let (_, name) = pause.scope.stored();
            json!({
                "scope": pause.scope.kind(),
                "name": name,
                "since": pause.since.to_string(),
                "actor": pause.actor,
                "reason": pause.reason,
            })
        };
        let mut report = json!({ "paused": self.pauses.iter().map(pause).collect::<Vec<_>>() });
        if let Some(changed) = self.changed {
            report["changed"] = changed.into();
        }
        report
    }
}
