//! `cargo xtask services`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::error::Error;
use super::start::{down, export_lines, status_line, up};
use super::state::State;
use super::{Durability, Kind, keeper};

/// Run private servers for tests, on loopback and free ports.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  cargo xtask services up                   the usual servers, until `down`
  cargo xtask services up postgres nats     some of them: databases and brokers
  cargo xtask services up --durable         as a benchmark wants them
  eval \"$(cargo xtask services env)\"        their addresses, with user and password, for this shell
  cargo xtask services down                 stop them and remove their data

`cargo xtask test` needs none of this: it starts servers of its own and stops them."
)]
pub(crate) struct Services {
    #[command(subcommand)]
    command: Command,
    /// Where running servers are remembered [default: a folder in the target folder].
    #[arg(long, global = true, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start servers that are not up yet, install them if need be, and print what `env` prints.
    Up {
        /// Which ones; all but mysql if none is named.
        #[arg(value_name = "NAME")]
        names: Vec<Kind>,
        /// Make commits, and what NATS and Redis confirm, survive a power cut, at the price of speed.
        #[arg(long)]
        durable: bool,
    },
    /// Stop servers and remove their data; also what interrupted test runs left behind.
    Down {
        /// Which ones; all if none is named.
        #[arg(value_name = "NAME")]
        names: Vec<Kind>,
    },
    /// Print the variables that lead tests to the servers that are up.
    Env,
    /// Print which servers are remembered, and whether they are up.
    Status,
    /// Stop servers when the standard input ends.
    #[command(hide = true)]
    Keep,
}

impl Services {
    /// `folder` is ours in the target folder.
    pub(crate) fn run(&self, folder: &Path) -> Result<(), Error> {
        let state = State::at(self.dir.clone().unwrap_or_else(|| folder.join("up")));
        match &self.command {
            Command::Up { names, durable } => {
                let kinds = if names.is_empty() { &Kind::USUAL[..] } else { names };
                let outcomes = up(&state, kinds, Durability::when(*durable))?;
                print(&export_lines(&state.records()?))?;
                Error::all(outcomes.into_iter().filter_map(Result::err).collect())
            }
            Command::Down { names } => {
                let names: Vec<_> = names.iter().map(|kind| kind.service().name()).collect();
                down(&state, Some(names.as_slice()).filter(|names| !names.is_empty()))?;
                if self.dir.is_none() { keeper::sweep(&runs(folder)) } else { Ok(()) }
            }
            Command::Env => print(&export_lines(&state.records()?)),
            Command::Status => print(&state.records()?.iter().map(status_line).collect::<String>()),
            Command::Keep => keeper::keep(state.folder()),
        }
    }
}

/// Where the states of test runs are.
pub(super) fn runs(folder: &Path) -> PathBuf {
    folder.join("runs")
}

fn print(text: &str) -> Result<(), Error> {
    io::stdout().write_all(text.as_bytes()).map_err(Error::io("stdout"))
}
