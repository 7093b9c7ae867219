//! The one door for developers of Sendoff.
//!
//! Promise: each command needs nothing but a clone and a toolchain, works from any folder of the
//! clone, and stops at the first step that fails, saying which.
//!
//! Not here: what the steps do. They are cargo commands, printed as they run, to be repeated by hand.

mod plan;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::plan::{Runner, Sim};
use crate::run::Workspace;

/// The one door for developers of Sendoff.
#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    arg_required_else_help = true,
    after_help = "Examples:
  cargo xtask test                          every test and every documented example
  cargo xtask test --no-doc -- poller       tests with `poller` in their name
  cargo xtask sim --seeds 200               200 simulated runs
  cargo xtask sim --seed 4711               the run of one seed again
  cargo xtask ci                            what a change must pass"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every test, then every documented example.
    Test {
        /// Leave the documented examples out.
        #[arg(long)]
        no_doc: bool,
        /// Arguments for the test runner (cargo-nextest where installed, else cargo test).
        #[arg(last = true)]
        extra: Vec<String>,
    },
    /// Run the engine on simulated time, with faults drawn from seeds.
    Sim(Sim),
    /// Check format and lints, then test.
    Ci,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let workspace = match Workspace::find() {
        Ok(workspace) => workspace,
        Err(error) => return run::fail(&error),
    };
    let steps = match command {
        Command::Test { no_doc, extra } => {
            plan::test(runner(&workspace), &extra, plan::Docs::unless(no_doc))
        }
        Command::Sim(sim) => plan::sim(&sim),
        Command::Ci => plan::ci(runner(&workspace)),
    };
    match workspace.run(&steps) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => run::fail(&error),
    }
}

fn runner(workspace: &Workspace) -> Runner {
    if workspace.has_nextest() { Runner::Nextest } else { Runner::CargoTest }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
