//! What can be said on the command line of the demo, and how much work that means.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, value_parser};

/// Events of a run that is to end and was not told how many.
const SHORT_RUN: u64 = 2_000;
/// Orders a second in a run without end, so that a laptop stays cool.
const COOL_RATE: u32 = 500;

/// Place orders, deliver their events past crashes and failures, and have the result checked
///
/// Orders go into an SQLite file, each with its event in one transaction, and the events to a
/// handler that sometimes fails. A checker that follows every event says in the end whether any was
/// lost, made up or delivered twice.
///
/// The outbox runs in this process. Kill it whenever you like: with --db and --resume it goes on,
/// and what was committed is delivered.
#[derive(Debug, Args)]
#[command(
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

    /// Go on with a FILE that an earlier demo left, also by a crash
    #[arg(long, requires = "db", env = "SENDOFF_DEMO_RESUME", value_parser = BoolishValueParser::new())]
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

    /// Orders a second; none is no limit.
    pub(crate) fn rate(&self) -> Option<u32> {
        self.rate.or((self.amount() == Amount::Endless).then_some(COOL_RATE))
    }

    /// Whether all that is judged may be thrown away, so that the file does not grow for ever.
    pub(crate) fn forgets(&self) -> bool {
        self.db.is_none() && self.amount() == Amount::Endless
    }
}
