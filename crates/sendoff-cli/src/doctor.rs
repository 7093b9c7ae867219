//! `sendoff doctor`: says what is wrong with a journal, and what to do.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sendoff::Timestamp;
use sendoff::journal::Holder;
use sendoff::journal::doctor::{Checkup, Finding, Severity, Tolerance};
use sendoff::journal::publish::Which;
use serde_json::{Value, json};

use crate::database::Database;
use crate::duration::duration;
use crate::journal::{Opened, Pairs};
use crate::output;

/// Say what is wrong with a journal, and what to do
///
/// Names whoever holds the tail back, by process or by the name of a prepared transaction, and since
/// when; checks what a tail relies on; and shows every pair of topic and publisher. Changes nothing.
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
    /// Show what open transactions were last told to do. The text may hold values
    #[arg(long)]
    queries: bool,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

const WRONG: u8 = 1;

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, open, lag, queries, json } = options;
    let opened = Opened::of(database).await?;
    let checkup = opened.publishers.checkup(&Which::all()).await?;
    let mut doing = Vec::new();
    for holder in &checkup.holders {
        doing.push(if queries { opened.journal.doing(holder).await? } else { None });
    }
    let findings = checkup.findings(&Tolerance { open, lag });
    let is_wrong = |finding: &Finding| finding.severity() == Severity::Wrong;
    let wrong = findings.iter().any(is_wrong);
    let report = Report { checkup, doing, findings };
    output::data(&if json { report.json().to_string() } else { report.text()? })?;
    Ok(if wrong { ExitCode::from(WRONG) } else { ExitCode::SUCCESS })
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
        let finding = |finding: &Finding| {
            let severity = word(finding.severity());
            json!({ "code": finding.code(), "severity": severity, "text": finding.to_string() })
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
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
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
        if self.findings.is_empty() {
            text.push_str("\nnothing is wrong");
        }
        for finding in &self.findings {
            write!(text, "\n{}: {finding}", word(finding.severity()))?;
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
