//! `sendoff doctor`: says what is wrong with an outbox and a journal, and what to do.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sendoff::Timestamp;
use sendoff::any::OpenError;
use sendoff::doctor::{OutboxCheckup, OutboxFinding, Undelivered, checkup};
use sendoff::journal::Holder;
use sendoff::journal::doctor::{Checkup, Finding, Severity, Tolerance};
use sendoff::journal::publish::Which;
use sendoff::store::StoreError;
use serde_json::{Value, json};

use crate::database::Database;
use crate::duration::duration;
use crate::journal::{Opened, Pairs};
use crate::output;

/// Say what is wrong with an outbox and a journal, and what to do
///
/// Looks at whichever of them is there. Of an outbox it names dead letters, keys that are parked, the event that has
/// been due for longest and what that waits for, and what is paused. Of a journal it names whoever holds the tail back, by
/// process or by the name of a prepared transaction, and since when; checks what a tail relies on; and shows
/// every pair of topic and publisher. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff doctor\n  \
    sendoff doctor --open 1m --lag 100000 --json\n  \
    sendoff doctor --queries           with what open transactions were last told to do\n\n\
    Exit status: 0 nothing is wrong, 1 something is, 2 it could not be found out.")]
pub(crate) struct Options {
    #[command(flatten)]
    database: Database,
    /// How long an append may be open
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    open: Duration,
    /// How many positions a pair may lag
    #[arg(long, value_name = "POSITIONS", default_value_t = Tolerance::default().lag)]
    lag: u64,
    /// How long an event of the outbox may be due before that is wrong
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    late: Duration,
    /// Show what open transactions were last told to do. The text may hold values
    #[arg(long)]
    queries: bool,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

const WRONG: u8 = 1;

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, open, lag, late, queries, json } = options;
    let outbox = Look::from(outbox(database.clone()).await);
    let journal = Look::from(journal(database, Tolerance { open, lag }, queries).await);
    let mut findings: Vec<Found> = Vec::new();
    findings.extend(outbox.unusable("outbox-unusable", "the outbox"));
    findings.extend(journal.unusable("journal-unusable", "the journal"));
    let (outbox, journal) = match (outbox, journal) {
        // Whichever is there; where neither is, both are missed.
        (Look::Nothing(no_outbox), Look::Nothing(no_journal)) => {
            return Err(no_journal.context(format!("there is no outbox either ({no_outbox:#})")));
        }
        // Nothing was answered, so that nothing is known.
        (Look::Failed(error), Look::Failed(_) | Look::Nothing(_))
        | (Look::Nothing(_), Look::Failed(error))
            if !is_answer(&error) =>
        {
            return Err(error);
        }
        (outbox, journal) => (outbox.seen(), journal.seen()),
    };
    if let Some(outbox) = &outbox {
        findings.extend(outbox.findings(late).iter().map(Found::from));
    }
    for finding in journal.iter().flat_map(|journal| &journal.findings).map(Found::from) {
        // Both live on one server.
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let wrong = findings.iter().any(|finding| finding.severity == Severity::Wrong);
    let said = if json {
        let mut report = journal.as_ref().map_or_else(|| json!({}), Report::json);
        report["outbox"] = outbox.as_ref().map_or(Value::Null, outbox_json);
        report["findings"] = findings.iter().map(Found::json).collect();
        report.to_string()
    } else {
        text(outbox.as_ref(), journal.as_ref(), &findings)?
    };
    output::data(&said)?;
    Ok(if wrong { ExitCode::from(WRONG) } else { ExitCode::SUCCESS })
}

/// What came of looking at one of them.
enum Look<T> {
    Seen(T),
    /// There is none.
    Nothing(anyhow::Error),
    /// There may be one, and it could not be looked at.
    Failed(anyhow::Error),
}

impl<T> From<anyhow::Result<T>> for Look<T> {
    fn from(looked: anyhow::Result<T>) -> Self {
        match looked {
            Ok(seen) => Self::Seen(seen),
            Err(error) => match of_store(&error) {
                Some(StoreError::NotInstalled { .. }) => Self::Nothing(error),
                _ => Self::Failed(error),
            },
        }
    }
}

impl<T> Look<T> {
    fn seen(self) -> Option<T> {
        match self {
            Self::Seen(seen) => Some(seen),
            Self::Nothing(_) | Self::Failed(_) => None,
        }
    }

    /// Somebody has to mend what cannot be looked at.
    fn unusable(&self, code: &'static str, what: &str) -> Option<Found> {
        let Self::Failed(error) = self else { return None };
        // Without what a command that needs one would say of it.
        let why = of_store(error).map_or_else(|| format!("{error:#}"), StoreError::to_string);
        let text = format!("{what} cannot be worked with: {why}");
        Some(Found { code, severity: Severity::Wrong, text })
    }
}

/// What a store said, on whichever way it came here.
fn of_store(error: &anyhow::Error) -> Option<&StoreError> {
    match error.downcast_ref() {
        Some(OpenError::Store(error)) => Some(error),
        _ => error.downcast_ref(),
    }
}

/// Whether the database said what is wrong with the tables or the rights.
fn is_answer(error: &anyhow::Error) -> bool {
    use StoreError::{NewerSchema, Rights, Schema};

    matches!(of_store(error), Some(NewerSchema { .. } | Rights { .. } | Schema { .. }))
}

/// Something that somebody should know, of whichever it is.
#[derive(PartialEq)]
struct Found {
    code: &'static str,
    severity: Severity,
    text: String,
}

impl From<&OutboxFinding> for Found {
    fn from(finding: &OutboxFinding) -> Self {
        let (code, severity) = (finding.code(), finding.severity());
        Self { code, severity, text: finding.to_string() }
    }
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        let (code, severity) = (finding.code(), finding.severity());
        Self { code, severity, text: finding.to_string() }
    }
}

impl Found {
    fn json(&self) -> Value {
        json!({ "code": self.code, "severity": word(self.severity), "text": self.text })
    }
}

fn text(
    outbox: Option<&OutboxCheckup>,
    journal: Option<&Report>,
    findings: &[Found],
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    if let Some(OutboxCheckup { dead, oldest, at_least, parked, pauses, .. }) = outbox {
        write!(
            text,
            "the outbox has {dead} dead letters, {parked} parked keys, and {} pauses",
            pauses.len()
        )?;
        if let Some(Undelivered { id, event_type, due_for, .. }) = oldest {
            let least = if *at_least { "at least " } else { "" };
            let seconds = due_for.as_secs_f64();
            write!(
                text,
                "\noldest undelivered: {id} ({event_type}), due for {least}{seconds:.1} s"
            )?;
        }
    }
    if let Some(journal) = journal {
        write!(text, "\n{}", journal.text()?)?;
    }
    if findings.is_empty() {
        text.push_str("\nnothing is wrong");
    }
    for finding in findings {
        write!(text, "\n{}: {}", word(finding.severity), finding.text)?;
    }
    Ok(text.trim_start().to_owned())
}

fn outbox_json(checkup: &OutboxCheckup) -> Value {
    let OutboxCheckup { dead, oldest, at_least, parked, pauses, .. } = checkup;
    let oldest = oldest.as_ref().map(|oldest| {
        json!({
            "event_id": oldest.id.to_string(),
            "event_type": oldest.event_type,
            "due_seconds": oldest.due_for.as_secs_f64(),
            "at_least": at_least,
            "attempts": oldest.attempts,
            "unavailable_since": oldest.unavailable_since.map(|time| time.to_string()),
            "unroutable_since": oldest.unroutable_since.map(|time| time.to_string()),
            "held_by": oldest.held_by,
            "key": oldest.key.as_ref().map(|key| &key.key),
            "key_state": oldest.key.as_ref().map(|key| key.state.name()),
            "error": oldest.last_error,
        })
    });
    let paused: Vec<_> = pauses.iter().map(|pause| pause.scope.to_string()).collect();
    json!({
        "dead": { "count": dead.counted(), "exact": dead.is_exact() },
        "oldest": oldest,
        "parked_keys": { "count": parked.counted(), "exact": parked.is_exact() },
        "paused": paused,
    })
}

/// How the outbox is, where there is one.
async fn outbox(database: Database) -> anyhow::Result<OutboxCheckup> {
    Ok(checkup(&database.outbox().await?).await?)
}

/// How the journal is, where there is one.
async fn journal(
    database: Database,
    tolerance: Tolerance,
    queries: bool,
) -> anyhow::Result<Report> {
    let opened = Opened::of(database).await?;
    let checkup = opened.publishers.checkup(&Which::all()).await?;
    let mut doing = Vec::new();
    for holder in &checkup.holders {
        doing.push(if queries { opened.journal.doing(holder).await? } else { None });
    }
    let findings = checkup.findings(&tolerance);
    Ok(Report { checkup, doing, findings })
}

struct Report {
    checkup: Checkup,
    /// What each holder was last told to do, where it was asked for.
    doing: Vec<Option<String>>,
    findings: Vec<Finding>,
}

impl Report {
    fn json(&self) -> Value {
        let Checkup { server, sequence, head, holders, pairs, .. } = &self.checkup;
        let holder = |(holder, doing): (&Holder, &Option<String>)| {
            json!({
                "transaction": holder.id.as_str(),
                "pid": holder.pid,
                "gid": holder.gid,
                "since": holder.since.map(|time| time.to_string()),
                "seconds": self.checkup.open_for(holder).map(|open| open.as_secs_f64()),
                "application": holder.application,
                "query": doing,
            })
        };
        json!({
            "standby": server.in_recovery,
            "sequence": {
                "cache": sequence.cache,
                "increment": sequence.increment,
                "cycles": sequence.cycles,
            },
            "head": head,
            "holders": holders.iter().zip(&self.doing).map(holder).collect::<Vec<_>>(),
            "pairs": Pairs(pairs).json(),
        })
    }

    fn text(&self) -> Result<String, std::fmt::Error> {
        let Checkup { server, head, holders, pairs, .. } = &self.checkup;
        let mut text = format!("the journal ends at position {head}");
        // A file has no server.
        if server.started_at > Timestamp::from_micros(0) {
            let role = if server.in_recovery { "standby" } else { "primary" };
            write!(text, ", on a {role} that runs since {}", server.started_at)?;
        }
        write!(text, "\nappends open: {}", holders.len())?;
        for (holder, doing) in holders.iter().zip(&self.doing) {
            write!(text, "\n  {}", self.holder(holder))?;
            if let Some(doing) = doing {
                let doing: Vec<_> = doing.split_whitespace().collect();
                write!(text, ": {}", doing.join(" "))?;
            }
        }
        write!(text, "\npublishers: {}", pairs.len())?;
        for line in Pairs(pairs).to_string().lines() {
            write!(text, "\n  {line}")?;
        }
        Ok(text)
    }

    fn holder(&self, holder: &Holder) -> String {
        match (holder.since, self.checkup.open_for(holder)) {
            (Some(since), Some(open)) => {
                format!("{holder} since {since}, {:.1} s", open.as_secs_f64())
            }
            _ => holder.to_string(),
        }
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Wrong => "wrong",
        Severity::Advice => "advice",
    }
}
