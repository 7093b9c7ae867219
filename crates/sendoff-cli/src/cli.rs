//! The commands of the program and what is common to all of them.

use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    cleanup, consume_one, demo, doctor, events, journal, keys, migrate, partitions, pause, peek,
};

/// A transactional outbox: events leave only after your commit, and always arrive.
#[derive(Debug, Parser)]
#[command(
    name = "sendoff",
    version,
    propagate_version = true,
    after_help = "Examples:\n  \
        sendoff demo                  watch it work; Ctrl-C ends it\n  \
        sendoff demo --exit --json    a short run, and its report as one line of JSON\n  \
        sendoff demo --help           everything the demo can be told\n  \
        sendoff migrate --print       the tables, as a script for PostgreSQL\n  \
        sendoff peek                  what comes next, and takes nothing\n  \
        sendoff consume-one -- ./ship the next due event, on a command's standard input\n  \
        sendoff pause --all --reason …  nothing is delivered until `sendoff resume`\n  \
        sendoff events list           dead letters; requeue or discard them\n  \
        sendoff events replay …       what was delivered, once more, to a command of yours\n  \
        sendoff keys list             keys that are parked behind a dead event\n  \
        sendoff cleanup --once        delete what was kept long enough\n  \
        sendoff partitions --once     make partitions ahead, drop those that are over\n  \
        sendoff journal tail --follow the facts of a journal, as they become certain\n  \
        sendoff doctor                what is wrong with an outbox and a journal, and what to do"
)]
pub(crate) struct Cli {
    /// How log lines on stderr look. Which ones appear is up to SENDOFF_LOG, for example `warn` or
    /// `sendoff_engine=debug`
    #[arg(long, global = true, value_enum, default_value_t, env = "SENDOFF_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line, for programs.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // Described where its options are.
    Demo(demo::Options),
    Migrate(migrate::Options),
    Peek(peek::Options),
    ConsumeOne(consume_one::Options),
    Pause(pause::PauseOptions),
    Resume(pause::ResumeOptions),
    Events(events::Options),
    Keys(keys::Options),
    Cleanup(cleanup::Options),
    Partitions(partitions::Options),
    Journal(journal::Options),
    Doctor(doctor::Options),
}

impl Command {
    /// What is logged where SENDOFF_LOG says nothing.
    pub(crate) fn default_log_filter(&self) -> &'static str {
        match self {
            // Failed deliveries are warnings, and the demo makes them on purpose. Those that end dead are a
            // line of its report, and not one each.
            Self::Demo(_) => "error,sendoff_engine::dispatch::follow_up=off",
            Self::Migrate(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Events(_)
            | Self::Keys(_)
            | Self::Cleanup(_)
            | Self::Partitions(_)
            | Self::Journal(_)
            | Self::Peek(_)
            | Self::Doctor(_) => "warn",
            // What it has to say about the one event it says itself.
            Self::ConsumeOne(_) => "off",
        }
    }
}
