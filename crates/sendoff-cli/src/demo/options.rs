//! What can be said on the command line of the demo, and how much work that means.

use std::path::PathBuf;

use anyhow::bail;
use clap::builder::BoolishValueParser;
use clap::{ArgGroup, Args, value_parser};
use sendoff::Ident;
use sendoff::any::DatabaseKind;

use crate::database::ident;

/// Events of a run that is to end and was not told how many.
const SHORT_RUN: u64 = 2_000;
/// Orders a second in a run without end, so that a laptop stays cool.
const COOL_RATE: u32 = 500;

/// Place orders, deliver their events past crashes and failures, and have the result checked
///
/// Orders go into an SQLite file, or a database of yours, each with its event in one transaction, and the
/// events to a handler that sometimes fails. A checker that follows every event says in the end whether any was
/// lost, made up or delivered twice.
///
/// The outbox runs in this process. Kill it whenever you like: with --db and --resume it goes on,
/// and what was committed is delivered.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("kept").args(["db", "database_url"]),
    after_help = include_str!("examples.txt"),
    after_long_help = concat!(include_str!("notes.txt"), include_str!("examples.txt"))
)]
pub(crate) struct Options {
    /// Orders to commit, 1 to 100,000,000 [default: no end; 2000 with --exit; none with --resume,
    /// where they come on top of those in FILE]
    #[arg(
        long, value_name = "N", env = "SENDOFF_DEMO_EVENTS",
        value_parser = value_parser!(u64).range(1..=100_000_000)
    )]
    events: Option<u64>,

    /// Stop when everything is written and delivered, instead of waiting for Ctrl-C
    #[arg(long, env = "SENDOFF_DEMO_EXIT", value_parser = BoolishValueParser::new())]
    pub(crate) exit: bool,

    /// Print the report as one line of JSON
    #[arg(long, env = "SENDOFF_DEMO_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,

    /// Threads that place orders, 1 to 64
    #[arg(
        long, value_name = "N", default_value_t = 4, env = "SENDOFF_DEMO_WRITERS",
        value_parser = value_parser!(u16).range(1..=64)
    )]
    pub(crate) writers: u16,

    /// Deliveries at once, 1 to 256
    #[arg(
        long, value_name = "N", default_value_t = 4, env = "SENDOFF_DEMO_WORKERS",
        value_parser = value_parser!(u16).range(1..=256)
    )]
    pub(crate) workers: u16,

    /// Share of the transactions rolled back on purpose, 0 to 90
    #[arg(
        long, value_name = "PERCENT", default_value_t = 10, env = "SENDOFF_DEMO_ROLLBACK",
        value_parser = value_parser!(u8).range(0..=90)
    )]
    pub(crate) rollback: u8,

    /// Share of the delivery attempts that fail, 0 to 100; after ten an event is dead
    #[arg(
        long, value_name = "PERCENT", default_value_t = 3, env = "SENDOFF_DEMO_FAILURES",
        value_parser = value_parser!(u8).range(0..=100)
    )]
    pub(crate) failures: u8,

    /// The most orders a second, 1 to 1,000,000 [default: 500 without an end, else unlimited]
    #[arg(
        long, value_name = "N", env = "SENDOFF_DEMO_RATE",
        value_parser = value_parser!(u32).range(1..=1_000_000)
    )]
    rate: Option<u32>,

    /// Orders after which the checker judges and forgets, 100 to 1,000,000
    #[arg(
        long, value_name = "N", default_value_t = 50_000, env = "SENDOFF_DEMO_CHECK_EVERY",
        value_parser = value_parser!(u64).range(100..=1_000_000)
    )]
    pub(crate) check_every: u64,

    /// The SQLite file; must not exist yet [default: a temporary one, removed at the end]
    #[arg(long, value_name = "FILE", env = "SENDOFF_DEMO_DB")]
    pub(crate) db: Option<PathBuf>,

    /// The same in a database: `postgres://…`, `mysql://…`, `mariadb://…`, or `sqlite:FILE`. The demo makes
    /// tables of its own and removes them at its end. Better given by the environment, where other users of
    /// the machine do not see it
    #[arg(long, value_name = "URL", env = "SENDOFF_DEMO_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,

    /// What the tables in URL's database are called by: a schema on PostgreSQL, a prefix on MySQL and
    /// MariaDB. At most 40 characters
    #[arg(
        long, value_name = "NAME", default_value = "sendoff_demo", value_parser = name,
        env = "SENDOFF_DEMO_NAME"
    )]
    pub(crate) name: Ident,

    /// Leave the tables in URL's database
    #[arg(long, env = "SENDOFF_DEMO_KEEP", value_parser = BoolishValueParser::new())]
    pub(crate) keep: bool,

    /// Go on with what an earlier demo left in FILE or URL, also by a crash
    #[arg(long, requires = "kept", env = "SENDOFF_DEMO_RESUME", value_parser = BoolishValueParser::new())]
    pub(crate) resume: bool,

    /// Kill the demo twice in the middle of its work, resume it each time, and show what became of
    /// every event
    #[arg(
        long, conflicts_with_all = ["exit", "resume", "db"], env = "SENDOFF_DEMO_CRASH",
        value_parser = BoolishValueParser::new()
    )]
    pub(crate) crash: bool,

    /// What decides which orders are rolled back and which attempts fail [default: random]
    #[arg(long, value_name = "N", env = "SENDOFF_DEMO_SEED")]
    pub(crate) seed: Option<u64>,

    /// A part of --crash: --events counts those of earlier runs, too, and once so many of them are there
    /// that is said on stdout
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) chapter: Option<u64>,
}

/// A name with room for those of tables after it.
fn name(name: &str) -> anyhow::Result<Ident> {
    let name = ident(name)?;
    if name.as_str().len() > 40 {
        bail!("at most 40 characters");
    }
    Ok(name)
}

/// How many orders to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    Exactly(u64),
    Endless,
}

impl Options {
    pub(crate) fn amount(&self) -> Amount {
        match self.events {
            Some(events) => Amount::Exactly(events),
            None if self.resume => Amount::Exactly(0),
            None if self.exit => Amount::Exactly(SHORT_RUN),
            None => Amount::Endless,
        }
    }

    /// What is left of that after what earlier runs wrote.
    pub(crate) fn amount_after(&self, written: u64) -> Amount {
        match (self.amount(), self.chapter) {
            (Amount::Exactly(all), Some(_)) => Amount::Exactly(all.saturating_sub(written)),
            (amount, _) => amount,
        }
    }

    /// The URL of a server's database.
    pub(crate) fn server(&self) -> Option<&str> {
        self.database_url.as_deref().filter(|url| !is_file(url))
    }

    /// The SQLite file that was named.
    pub(crate) fn file(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(url) = &self.database_url else { return Ok(self.db.clone()) };
        let path = url.trim_start_matches("sqlite:").trim_start_matches("//");
        if path.is_empty() || path.contains(['?', '#']) || path == ":memory:" {
            bail!("--database-url: the demo wants sqlite:FILE, without options");
        }
        Ok(Some(path.into()))
    }

    /// Orders a second; none is no limit.
    pub(crate) fn rate(&self) -> Option<u32> {
        self.rate.or((self.amount() == Amount::Endless).then_some(COOL_RATE))
    }

    /// Whether all that is judged may be thrown away, so that the file does not grow for ever.
    pub(crate) fn forgets(&self) -> bool {
        let temporary = self.db.is_none() && self.database_url.is_none();
        temporary && self.amount() == Amount::Endless
    }
}

fn is_file(url: &str) -> bool {
    DatabaseKind::of(url).is_ok_and(|kind| kind == DatabaseKind::Sqlite)
}
