//! `sendoff events`: shows dead letters, requeues and discards them, shows what operators did, and replays what
//! was delivered.

mod act;
mod audit;
mod chosen;
mod list;
mod opened;
mod replay;
mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use indicatif::MultiProgress;

/// Nothing was there that was asked for.
const NOTHING: u8 = 3;

/// Show dead letters, requeue or discard them; replay what was delivered
///
/// A dead letter is an event that no attempt is left for. It stays until somebody decides: requeue it when
/// its cause is mended, or discard it. Whatever is done is remembered, with who did it and why.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sendoff events list --type mail.wanted --error 'mailbox unavailable'\n  \
    sendoff events list --count\n  \
    sendoff events show 01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b --payload\n  \
    sendoff events requeue --type mail.wanted --reason 'the mail server is back' --dry-run\n  \
    sendoff events requeue --type mail.wanted --reason 'the mail server is back'\n  \
    sendoff events discard --tenant acme --reason 'the customer left' --yes\n  \
    sendoff events audit\n  \
    sendoff events replay --type order.placed -- ./rebuild-index")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Described where its options are.
    List(list::Options),
    Show(show::Options),
    Requeue(act::Requeue),
    Discard(act::Discard),
    Audit(audit::Options),
    Replay(replay::Options),
}

pub(crate) async fn run(options: Options, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    match options.command {
        Command::List(options) => list::run(options).await,
        Command::Show(options) => show::run(options).await,
        Command::Requeue(options) => act::requeue(options, screen).await,
        Command::Discard(options) => act::discard(options, screen).await,
        Command::Audit(options) => audit::run(options).await,
        Command::Replay(options) => replay::run(options, screen).await,
    }
}
