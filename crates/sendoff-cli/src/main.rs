//! The program `sendoff`.
//!
//! Promise: data on stdout, everything else on stderr; nothing is overwritten or deleted that a
//! command did not make itself.
//!
//! Not here: how events are written and delivered (see `sendoff`). One folder for each command.

mod cleanup;
mod cli;
mod consume_one;
mod database;
mod demo;
mod doctor;
mod duration;
mod events;
mod journal;
mod keys;
mod logging;
mod migrate;
mod output;
mod pages;
mod partitions;
mod passes;
mod pause;
mod payload;
mod peek;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

/// The command could not do its work; also clap's answer to options it does not understand.
const COULD_NOT: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    run(cli).unwrap_or_else(|error| {
        output::complain(&error);
        ExitCode::from(COULD_NOT)
    })
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let screen = indicatif::MultiProgress::new();
    logging::start(cli.log_format, cli.command.default_log_filter(), screen.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = match cli.command {
        Command::Demo(options) => runtime.block_on(demo::run(options, screen)),
        Command::Migrate(options) => runtime.block_on(migrate::run(options)),
        Command::ConsumeOne(options) => runtime.block_on(consume_one::run(options)),
        Command::Pause(options) => runtime.block_on(pause::pause(options)),
        Command::Resume(options) => runtime.block_on(pause::resume(options)),
        Command::Events(options) => runtime.block_on(events::run(options, screen)),
        Command::Keys(options) => runtime.block_on(keys::run(options)),
        Command::Cleanup(options) => runtime.block_on(cleanup::run(options, screen)),
        Command::Partitions(options) => runtime.block_on(partitions::run(options, screen)),
        Command::Journal(options) => runtime.block_on(journal::run(options, screen)),
        Command::Doctor(options) => runtime.block_on(doctor::run(options)),
        Command::Peek(options) => runtime.block_on(peek::run(options)),
    };
    // Whoever was told to abort does not wait for a thread that waits for a lock.
    runtime.shutdown_background();
    ended
}
