//! Measures Sendoff against hand-written code on the same database, in the same run.
//!
//! Promise: each figure is a ratio. What limits it and what is measured take turns, round by round,
//! on the same server, with the same rows, batches, connections and durability; medians are told,
//! and every round beside them.
//!
//! Not here: absolute speed, which says more about a disk than about a library.

mod contest;
mod ground;
mod latency;
mod load;
mod measure;
mod order;
mod ours;
mod raw;
mod report;
mod scenario;
mod server;
mod work;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::report::Format;

/// Sendoff's speed, as a ratio to what the same database gives to hand-written code.
#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo run --release -p bench --",
    arg_required_else_help = true,
    after_help = "Examples:
  cargo run --release -p bench -- drain                       a table for people
  cargo run --release -p bench -- drain --json                a line of JSON for each finding
  cargo run --release -p bench -- drain --store sqlite        the embedded store
  cargo run --release -p bench -- drain --store mariadb       MariaDB
  cargo run --release -p bench -- write-cost --clients 8      one number of clients

A durable server of its own is started and stopped again, unless SENDOFF_POSTGRES_URL,
SENDOFF_MARIADB_URL or SENDOFF_MYSQL_URL leads to one; there, databases called sendoff_bench_* are made
and dropped."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// What every scenario takes.
#[derive(Debug, Clone, Args)]
struct Common {
    /// Print a line of JSON for each finding.
    #[arg(long, global = true)]
    json: bool,
    /// How often each side is measured, in turns.
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// The database.
    #[arg(long, global = true, value_enum, default_value_t = Store::Postgres)]
    store: Store,
}

/// The databases that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    Postgres,
    Mariadb,
    Mysql,
    Sqlite,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What an event adds to the transaction that writes it.
    WriteCost {
        /// Clients that write at once [default: 8 and 32, on SQLite 1].
        #[arg(long, value_delimiter = ',')]
        clients: Vec<usize>,
        /// Keys of the events, within which they are ordered; none if not given.
        #[arg(long, default_value_t = 0)]
        keys: u64,
        /// Only this way of writing [default: every way that the database has].
        #[arg(long, value_enum)]
        way: Option<work::Way>,
        /// How long a round writes.
        #[arg(long, default_value_t = 4.0, value_parser = seconds, value_name = "SECONDS")]
        seconds: f64,
    },
    /// Write, handle, done: in one process, under load and at a steady rate.
    Hot {
        /// Clients that write at once [default: 32, on SQLite 1].
        #[arg(long)]
        clients: Option<usize>,
        /// How long a round writes.
        #[arg(long, default_value_t = 4.0, value_parser = seconds, value_name = "SECONDS")]
        seconds: f64,
        /// Events in a second, for latency.
        #[arg(long, default_value_t = 500)]
        rate: u32,
    },
    /// The same for events with keys, against events without, under load.
    HotOrdered {
        /// Clients that write at once.
        #[arg(long, default_value_t = 32)]
        clients: usize,
        /// Keys of their events.
        #[arg(long, default_value_t = 10_000)]
        keys: u64,
        /// How long a round writes.
        #[arg(long, default_value_t = 4.0, value_parser = seconds, value_name = "SECONDS")]
        seconds: f64,
    },
    /// Delivers a backlog.
    Drain(scenario::drain::Backlog),
    /// Delivers a backlog of events that are ordered within keys.
    DrainOrdered(scenario::drain::Backlog),
    /// Delivers a backlog of events with keys, those of one of which fail each time.
    Poison(scenario::ordered::Poisoned),
    /// Delivers a backlog by the batch relay, in either claim mode.
    RelayBatch(scenario::relay_batch::Work),
    /// Delivers a backlog to NATS JetStream, against delivering it to nobody and publishing it by hand.
    SinkNats(scenario::drain::Backlog),
    /// The same to Redis Streams.
    SinkRedis(scenario::drain::Backlog),
    /// The same to Kafka: a mock cluster in this process, or the brokers of SENDOFF_KAFKA_URL.
    SinkKafka(scenario::drain::Backlog),
    /// Delivers a backlog beside none and beside many delivered rows that were kept.
    Retained {
        #[command(flatten)]
        backlog: scenario::drain::Backlog,
        /// Delivered rows that were kept.
        #[arg(long, default_value_t = 2_000_000)]
        done: u64,
    },
    /// Delivers a backlog beside a transaction that keeps a snapshot open, and without one.
    Snapshot(scenario::snapshot::Work),
    /// Writes beside a cleanup of many delivered rows, and without one.
    Cleanup {
        /// Delivered rows to delete.
        #[arg(long, default_value_t = 500_000)]
        done: u64,
        /// Clients that write at once [default: 8, on SQLite 1].
        #[arg(long)]
        clients: Option<usize>,
        /// How long a round without a cleanup writes.
        #[arg(long, default_value_t = 4.0, value_parser = seconds, value_name = "SECONDS")]
        seconds: f64,
    },
    /// The most memory taken while delivering a small and a large backlog.
    Memory {
        /// The small backlog.
        #[arg(long, default_value_t = 10_000)]
        few: u64,
        /// The large backlog.
        #[arg(long, default_value_t = 1_000_000)]
        many: u64,
        /// Rows in one claim.
        #[arg(long, default_value_t = 1_000)]
        batch: usize,
    },
    /// Appends to a journal, alone and several at once on tags of their own.
    Append {
        /// Clients that append at once.
        #[arg(long, default_value_t = 8)]
        clients: usize,
        /// How long a round appends.
        #[arg(long, default_value_t = 4.0, value_parser = seconds, value_name = "SECONDS")]
        seconds: f64,
    },
    /// Decides by a journal, under locks and by trying, against a row lock: few accounts and many.
    Decide {
        /// Clients that decide at once.
        #[arg(long, default_value_t = 16)]
        clients: usize,
        /// How long a round decides.
        #[arg(long, default_value_t = 4.0, value_parser = seconds, value_name = "SECONDS")]
        seconds: f64,
    },
    /// Follows a journal from its beginning: a reader, and a publisher with its cursor.
    Tail {
        /// Facts in it.
        #[arg(long, default_value_t = 200_000)]
        facts: u64,
        /// Facts in one look, and in one batch of the publisher.
        #[arg(long, default_value_t = 100)]
        batch: usize,
    },
    /// Many publishers on one node, against few: idle, and delivering.
    Pairs(scenario::publish::Pairs),
    /// Delivers the backlog of a database that is there, and prints the memory it took.
    #[command(hide = true)]
    MemoryChild {
        /// The database.
        #[arg(long)]
        at: String,
        /// Its backlog.
        #[arg(long)]
        rows: u64,
        /// Rows in one claim.
        #[arg(long)]
        batch: usize,
    },
}

/// Long enough to measure, short enough to wait for.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("from 0.1 to 3600".to_owned()),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let format = if cli.common.json { Format::Json } else { Format::Table };
    match run(cli).and_then(|findings| report::print(&findings, format)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(cli: Cli) -> anyhow::Result<Vec<report::Finding>> {
    let Cli { command, common } = cli;
    if let Command::MemoryChild { at, rows, batch } = command {
        return scenario::memory::child(common.store, &at, rows, batch).await.map(|()| Vec::new());
    }
    let rounds = usize::from(common.rounds);
    let server = server::Server::find(common.store).await?;
    let measured = tokio::select! {
        measured = measure_one(command, &server, rounds) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    server.stop().await?;
    measured
}

async fn measure_one(
    command: Command,
    server: &server::Server,
    rounds: usize,
) -> anyhow::Result<Vec<report::Finding>> {
    match command {
        Command::WriteCost { clients, keys, way, seconds } => {
            let time = Duration::from_secs_f64(seconds);
            scenario::write_cost::run(server, rounds, &clients, keys, way, time).await
        }
        Command::Hot { clients, seconds, rate } => {
            let time = Duration::from_secs_f64(seconds);
            scenario::hot::run(server, rounds, clients, time, rate).await
        }
        Command::HotOrdered { clients, keys, seconds } => {
            let time = Duration::from_secs_f64(seconds);
            scenario::hot::ordered(server, rounds, clients, keys, time).await
        }
        Command::Drain(backlog) => scenario::drain::run(server, rounds, backlog).await,
        Command::DrainOrdered(backlog) => scenario::ordered::drain(server, rounds, backlog).await,
        Command::Poison(poisoned) => scenario::ordered::poison(server, rounds, poisoned).await,
        Command::RelayBatch(work) => scenario::relay_batch::run(server, rounds, work).await,
        Command::SinkNats(backlog) => scenario::sink::nats(server, rounds, backlog).await,
        Command::SinkRedis(backlog) => scenario::sink::redis(server, rounds, backlog).await,
        Command::SinkKafka(backlog) => scenario::sink::kafka(server, rounds, backlog).await,
        Command::Retained { backlog, done } => {
            scenario::retained::run(server, rounds, backlog, done).await
        }
        Command::Snapshot(work) => scenario::snapshot::run(server, rounds, work).await,
        Command::Cleanup { done, clients, seconds } => {
            let time = Duration::from_secs_f64(seconds);
            scenario::cleanup::run(server, rounds, done, clients, time).await
        }
        Command::Memory { few, many, batch } => {
            scenario::memory::run(server, rounds, few, many, batch).await
        }
        Command::Append { clients, seconds } => {
            let time = Duration::from_secs_f64(seconds);
            scenario::journal::append(server, rounds, clients, time).await
        }
        Command::Decide { clients, seconds } => {
            let time = Duration::from_secs_f64(seconds);
            scenario::decide::run(server, rounds, clients, time).await
        }
        Command::Tail { facts, batch } => {
            scenario::publish::tail(server, rounds, facts, batch).await
        }
        Command::Pairs(pairs) => scenario::publish::pairs(server, rounds, pairs).await,
        Command::MemoryChild { .. } => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_round_is_neither_endless_nor_nothing() {
        for (text, taken) in
            [("0.1", true), ("3600", true), ("0.09", false), ("3601", false), ("nan", false)]
        {
            assert_eq!(seconds(text).is_ok(), taken, "{text}");
        }
    }
}
