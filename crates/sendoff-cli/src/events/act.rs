//! Requeueing and discarding.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use sendoff::letters::{
    AuditNote, DeadLetters, LetterAct, LetterCount, LetterFate, LetterSweep, PayloadWanted,
    SweepOptions, Swept,
};
use sendoff::{EventId, Status};
use serde_json::json;

use super::NOTHING;
use super::chosen::{Chosen, Selection};
use super::opened::opened;
use crate::database::Database;
use crate::output;
use crate::signals::{INTERRUPTED, cancelled_by_signal};

/// Ids that one act takes.
const AT_ONCE: usize = sendoff::limits::LETTERS;

/// Let dead letters be tried again, as if they had never been
///
/// They are NEW and due now, with no attempt used; running nodes find them soon. Only letters that died
/// before it began are touched, so that it ends also while handlers still fail.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff events requeue 01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b\n  \
    sendoff events requeue --type mail.wanted --reason 'the mail server is back' --dry-run\n  \
    sendoff events requeue --type mail.wanted --reason 'the mail server is back' --per-second 200\n\n\
    Exit status: 0 done, 1 some are left (locked, no longer dead, or it was interrupted), 2 failed, \
    3 nothing is dead there.")]
pub(super) struct Requeue {
    #[command(flatten)]
    act: Options,
}

/// Delete dead letters: they will not be delivered
///
/// Only the audit remembers them. By anything but ids it needs --yes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff events discard 01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b --reason 'sent by hand'\n  \
    sendoff events discard --type mail.wanted --died-to 2026-01-01T00:00:00Z --reason 'too old' --dry-run\n  \
    sendoff events discard --type mail.wanted --died-to 2026-01-01T00:00:00Z --reason 'too old' --yes\n\n\
    Exit status: 0 done, 1 some are left (locked, no longer dead, or it was interrupted), 2 failed, \
    3 nothing is dead there.")]
pub(super) struct Discard {
    #[command(flatten)]
    act: Options,
    /// Do it, to all that was chosen
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
struct Options {
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    selection: Selection,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who does it, for the audit; unless it is said, the user of this session
    #[arg(long, value_name = "NAME", env = "SENDOFF_ACTOR")]
    actor: Option<String>,
    /// Only say how many there are, counted up to 10,000
    #[arg(long)]
    dry_run: bool,
    /// Not more than so many in a second
    #[arg(long, value_name = "COUNT")]
    per_second: Option<usize>,
    /// End when so many are done
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Report as JSON: a line for each id, or one for all
    #[arg(long)]
    json: bool,
}

pub(super) async fn requeue(options: Requeue, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    options.act.run(LetterAct::Requeue, true, screen).await
}

pub(super) async fn discard(options: Discard, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    options.act.run(LetterAct::Discard, options.yes, screen).await
}

impl Options {
    async fn run(
        self,
        act: LetterAct,
        sure: bool,
        screen: MultiProgress,
    ) -> anyhow::Result<ExitCode> {
        let chosen = self.selection.chosen()?;
        if self.dry_run {
            let letters = opened(self.database).await?;
            let found = match chosen {
                Chosen::These(ids) => dead_among(&letters, &ids).await?,
                Chosen::Every(filter) => letters.count(&filter).await?,
            };
            return foretold(act, found, self.json);
        }
        let reason = match (self.reason, act, &chosen) {
            (Some(reason), ..) => reason,
            (None, LetterAct::Requeue, Chosen::These(_)) => "requeued by its id".to_owned(),
            _ => bail!("why? Give --reason: the audit keeps it"),
        };
        let note = AuditNote::new(actor(self.actor)?, reason)?;
        let letters = opened(self.database).await?;
        let filter = match chosen {
            Chosen::These(ids) => return by_id(&letters, act, &ids, &note, self.json).await,
            Chosen::Every(filter) => filter,
        };
        let (per_second, limit) = (self.per_second, self.limit);
        let options = SweepOptions { per_second, limit, ..SweepOptions::default() };
        let sweep = letters.sweep(act, filter, note, options)?;
        let found = sweep.dry_run().await?;
        if found.counted() == 0 {
            output::note("no such event is dead");
            return Ok(ExitCode::from(NOTHING));
        }
        if !sure {
            bail!("{found} dead letters would be {}: give --yes to do it", did(act));
        }
        output::note(&format!("{found} dead letters to be {}", did(act)));
        swept(act, sweep, found, screen, self.json).await
    }
}

const HINT: &str = "it needs the rights to select, update and delete rows of outbox_event, and to insert \
                    into outbox_audit";

/// Who acts: a name that was given, or that of the session's user.
fn actor(given: Option<String>) -> anyhow::Result<String> {
    let user = || std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok();
    match given.or_else(user).filter(|name| !name.trim().is_empty()) {
        Some(name) => Ok(name),
        None => bail!("who are you? Give --actor or set SENDOFF_ACTOR: the audit keeps it"),
    }
}

fn did(act: LetterAct) -> &'static str {
    match act {
        LetterAct::Requeue => "requeued",
        LetterAct::Discard => "discarded",
    }
}

fn foretold(act: LetterAct, found: LetterCount, json: bool) -> anyhow::Result<ExitCode> {
    output::data(&if json {
        let (letters, exact) = (found.counted(), found.is_exact());
        json!({ "dry_run": true, "letters": letters, "exact": exact }).to_string()
    } else {
        format!("{found} dead letters would be {}", did(act))
    })?;
    Ok(if found.counted() == 0 { ExitCode::from(NOTHING) } else { ExitCode::SUCCESS })
}

async fn dead_among(letters: &DeadLetters, ids: &[EventId]) -> anyhow::Result<LetterCount> {
    let mut dead = 0;
    for id in ids {
        let shown = letters.show(*id, PayloadWanted::No).await?;
        let status = shown.and_then(|shown| shown.record).map(|record| record.status);
        dead += u64::from(status == Some(Status::Dead));
    }
    Ok(LetterCount::Exactly(dead))
}

async fn by_id(
    letters: &DeadLetters,
    act: LetterAct,
    ids: &[EventId],
    note: &AuditNote,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut done = 0;
    for ids in ids.chunks(AT_ONCE) {
        let told = match act {
            LetterAct::Requeue => letters.requeue(ids, note).await,
            LetterAct::Discard => letters.discard(ids, note).await,
        };
        for (id, fate) in told.context(HINT)? {
            done += usize::from(fate == LetterFate::Done);
            output::data(&if json { line(id, act, fate) } else { sentence(id, act, fate) })?;
        }
    }
    Ok(match done {
        0 => ExitCode::from(NOTHING),
        done if done < ids.len() => ExitCode::from(INTERRUPTED),
        _ => ExitCode::SUCCESS,
    })
}

fn line(id: EventId, act: LetterAct, fate: LetterFate) -> String {
    let (fate, status) = match fate {
        LetterFate::Done => (did(act), None),
        LetterFate::NotDead { status } => ("not_dead", Some(status.name())),
        LetterFate::DiedAgain => ("died_again", None),
        LetterFate::NotFound => ("not_found", None),
        LetterFate::Busy => ("busy", None),
    };
    json!({ "event_id": id, "fate": fate, "status": status }).to_string()
}

fn sentence(id: EventId, act: LetterAct, fate: LetterFate) -> String {
    match fate {
        LetterFate::Done => format!("{id} {}", did(act)),
        LetterFate::NotDead { status } => format!("{id} is not dead: it is {}", status.name()),
        LetterFate::DiedAgain => format!("{id} died again meanwhile"),
        LetterFate::NotFound => format!("{id} is not there"),
        LetterFate::Busy => format!("{id} is as it was: somebody has its row locked"),
    }
}

/// How far it is, where it is known how far it goes.
pub(super) fn bar_for(found: LetterCount) -> ProgressBar {
    let bar = match found {
        LetterCount::Exactly(count) => ProgressBar::new(count).with_style(
            ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {eta}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        ),
        LetterCount::AtLeast(_) => ProgressBar::new_spinner(),
    };
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

async fn swept(
    act: LetterAct,
    sweep: LetterSweep,
    found: LetterCount,
    screen: MultiProgress,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let bar = screen.add(bar_for(found));
    let sweep = sweep.on_progress({
        let bar = bar.clone();
        move |swept| {
            bar.set_position(swept.done + swept.busy + swept.passed);
            bar.set_message(format!("{} letters {}", swept.done, did(act)));
        }
    });
    let (cancel, began) = (cancelled_by_signal()?, Instant::now());
    let (swept, failure) = match sweep.run_until(cancel.cancelled()).await {
        Ok(swept) => (swept, None),
        Err(error) => (error.so_far, Some(error)),
    };
    bar.finish_and_clear();
    // Whatever happened, what was done is done, and said.
    output::data(&summary(act, swept, began.elapsed(), json))?;
    match failure {
        Some(error) => Err(anyhow::Error::from(error).context(HINT)),
        None if swept.finished && swept.busy == 0 => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::from(INTERRUPTED)),
    }
}

fn summary(act: LetterAct, swept: Swept, took: Duration, json: bool) -> String {
    let Swept { began, done, busy, passed, batches, finished } = swept;
    let seconds = took.as_secs_f64();
    if json {
        return json!({
            "dry_run": false,
            "done": done,
            "busy": busy,
            "passed": passed,
            "batches": batches,
            "finished": finished,
            "began": began.map(|time| time.to_string()),
            "seconds": seconds,
        })
        .to_string();
    }
    let left = if finished { "" } else { "; more are left" };
    format!(
        "{done} dead letters {}, {busy} left because somebody has them locked, {passed} that somebody \
         else changed, in {batches} transactions, {seconds:.1} s{left}",
        did(act)
    )
}
