//! `sendoff journal`: makes a journal, reads it, operates its publishers, and lets go what is over.

mod fact;
mod migrate;
mod opened;
mod pairs;
mod parked;
mod publishers;
mod retain;
mod tail;
mod which;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use indicatif::MultiProgress;

pub(crate) use self::opened::Opened;
pub(crate) use self::pairs::Pairs;

/// Make a journal, read it, operate its publishers, let go what is over
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff journal migrate\n  \
    sendoff journal tail --follow --tag wallet_id=w1\n  \
    sendoff journal publishers list\n  \
    sendoff journal publishers pause --publisher kafka\n  \
    sendoff journal parked retry --topic wallets --publisher kafka\n  \
    sendoff journal retain --once --keep 30d\n\n\
    `sendoff doctor` says what is wrong.")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Described where its options are.
    Migrate(migrate::Options),
    Tail(tail::Options),
    Publishers(publishers::Options),
    #[command(subcommand)]
    Parked(parked::Command),
    Retain(retain::Options),
}

pub(crate) async fn run(options: Options, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    match options.command {
        Command::Migrate(options) => migrate::run(options).await,
        Command::Tail(options) => tail::run(options).await,
        Command::Publishers(options) => publishers::run(options).await,
        Command::Parked(command) => parked::run(command).await,
        Command::Retain(options) => retain::run(options, screen).await,
    }
}
