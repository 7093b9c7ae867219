//! The one door for developers of Sendoff.
//!
//! Promise: each command needs nothing but a clone and a toolchain, works from any folder of the
//! clone, and stops at the first step that fails, saying which. Servers it starts for the tests
//! stop with it.
//!
//! Not here: what the steps do. They are cargo commands, printed as they run, to be repeated by hand.

mod copies;
mod example;
mod plan;
mod run;
mod services;
mod soak;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::plan::{Runner, Sim};
use crate::run::Workspace;
use crate::services::cli::Services;
use crate::services::for_tests::Servers;

/// The one door for developers of Sendoff.
#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    arg_required_else_help = true,
    after_help = "Examples:
  cargo xtask test                          every test and every documented example
  cargo xtask test --no-doc -- poller       tests with `poller` in their name
  cargo xtask test --no-services            without starting servers
  cargo xtask test --mysql                  on MySQL as well as on MariaDB
  cargo xtask services up                   servers for tests run by hand
  cargo xtask sim --seeds 200               200 simulated runs
  cargo xtask sim --seed 4711               the run of one seed again
  cargo xtask soak sigstop --rounds 200     one of the tests that take minutes
  cargo xtask example axum_service          an example, with the server it needs
  cargo xtask api --check                   whether what is public is as docs/api says
  cargo xtask copies                        what packages carry of the repository, anew
  cargo xtask tools                         what the build needs, where it is missing
  cargo xtask ci                            what a change must pass"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every test, then every documented example, with private servers while they last, and check
    /// programs outside the workspace.
    Test {
        /// Start no servers: tests that need one skip themselves unless a variable names it.
        #[arg(long)]
        no_services: bool,
        /// Start MySQL too, beside MariaDB.
        #[arg(long, conflicts_with = "no_services")]
        mysql: bool,
        /// Leave the documented examples and the programs outside the workspace out.
        #[arg(long)]
        no_doc: bool,
        /// What runs the tests; cargo-nextest where it is installed, else cargo test.
        #[arg(long)]
        runner: Option<Runner>,
        /// Arguments for what runs the tests.
        #[arg(last = true)]
        extra: Vec<String>,
    },
    Services(Services),
    /// Install what the build needs and the machine lacks: make and a compiler for C++, for the client of Kafka.
    Tools,
    /// Run the engine on simulated time, with faults drawn from seeds.
    Sim(Sim),
    Soak(soak::Soak),
    Example(example::Example),
    /// List what each crate makes public in docs/api. Needs the nightly toolchain.
    Api {
        /// Write nothing, and fail where something differs.
        #[arg(long)]
        check: bool,
    },
    /// Copy into the crates what their packages carry of the repository: licenses, and the guide.
    Copies,
    /// Check format and lints, then test.
    Ci,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => run::fail(&error),
    }
}

fn run(command: Command) -> Result<(), run::Error> {
    let workspace = Workspace::find()?;
    let servers = |mysql: bool| Servers::start(&workspace.services_folder(), mysql);
    match command {
        Command::Test { no_services, mysql, no_doc, runner: chosen, extra } => {
            services::programs::install_for_build()?;
            let chosen = chosen.unwrap_or_else(|| runner(&workspace));
            let on_mysql = match std::env::var_os("SENDOFF_MYSQL_URL") {
                None if !mysql => plan::Mysql::LeaveOut,
                _ => plan::Mysql::Run,
            };
            let steps = plan::test(chosen, &extra, on_mysql, plan::Docs::unless(no_doc));
            workspace.lock_outside()?;
            let servers = if no_services { Servers::default() } else { servers(mysql)? };
            workspace.run(&steps, servers.exports())
        }
        Command::Tools => Ok(services::programs::install_for_build()?),
        Command::Services(services) => Ok(services.run(&workspace.services_folder())?),
        Command::Sim(sim) => workspace.run(&plan::sim(&sim), &[]),
        Command::Soak(soak) => {
            services::programs::install_for_build()?;
            soak.run(&workspace, runner(&workspace), || servers(false))
        }
        Command::Example(example) => example.run(&workspace),
        Command::Api { check } => workspace.run(&[plan::api(check)], &[]),
        Command::Copies => workspace.copy(),
        Command::Ci => {
            services::programs::install_for_build()?;
            workspace.lock_outside()?;
            workspace.run(&plan::ci(runner(&workspace)), servers(false)?.exports())
        }
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
