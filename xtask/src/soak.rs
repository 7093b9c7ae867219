//! Tests of minutes: which there are, and how they are run.
//!
//! Nothing is tested here that `cargo xtask test` does not test in a shorter form: a soak is the
//! tests of one module, told by their environment to make more rounds (`sendoff_testkit::soak`).

use std::fmt::Write;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::plan::{Runner, Step};
use crate::run::{self, Workspace, say};
use crate::services;
use crate::services::for_tests::Servers;

/// Every soak: its name, the rounds it makes unless told otherwise, and what it is about.
///
/// Its tests are those of the modules `soak::NAME`, with underscores, of all crates.
const SOAKS: [(&str, u32, &str); 11] = [
    ("locked-row", 1, "one row locked for a minute beside two busy nodes"),
    ("sigstop", 50, "a process of ours stopped at a random moment"),
    ("crash", 20, "the server crashes right after an event left"),
    ("order", 1, "ordered events, while nodes are killed, stopped and added, and letters requeued"),
    ("dead-letters", 1, "100,000 dead letters requeued while every handler still fails"),
    ("outage", 1, "a target away for three minutes, on every face"),
    ("broker-outage", 1, "a broker that is down for a minute, beside a target that is well"),
    ("exactly-once", 200, "an outbox, a broker and a consumer with an inbox, both ends killed"),
    ("journal-bytes", 1, "a journal of large facts, over a slow line as well"),
    ("journal-outages", 3, "a journal published through outages under load"),
    ("wake-up", 1, "how soon sleeping nodes begin, and how quiet idle ones are: figures"),
];

/// Run one of the tests that take minutes, on servers of its own.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Soak {
    /// Which one.
    #[arg(value_parser = PossibleValuesParser::new(SOAKS.map(|(name, ..)| name)))]
    name: String,
    /// How many rounds.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Begin again, with other seeds, until so many minutes are over.
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// What the first rounds are drawn from, to repeat a soak that failed.
    #[arg(long)]
    seed: Option<u64>,
}

fn help() -> String {
    let mut help = "Soaks:\n".to_owned();
    for (name, rounds, about) in SOAKS {
        let _ = writeln!(help, "  {name:16} {about} (rounds: {rounds})");
    }
    help.push_str(
        "\nExamples:
  cargo xtask soak sigstop                  its usual rounds
  cargo xtask soak sigstop --rounds 200     more of them
  cargo xtask soak crash --minutes 30       again and again, for half an hour
  cargo xtask soak sigstop --seed 4711      the rounds of one seed again",
    );
    help
}

impl Soak {
    pub(crate) fn run(
        &self,
        workspace: &Workspace,
        runner: Runner,
        servers: impl FnOnce() -> Result<Servers, services::Error>,
    ) -> Result<(), run::Error> {
        let servers = servers()?;
        let began = Instant::now();
        let ends = self.minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
        let first = self.seed.unwrap_or_else(some_seed);
        for seed in first.. {
            say(format_args!("{} with --seed {seed}", self.name));
            let mut variables = servers.exports().to_vec();
            variables.extend(self.variables(seed));
            workspace.run(&[self.step(runner)], &variables)?;
            if ends.is_none_or(|ends| began.elapsed() >= ends) {
                break;
            }
        }
        Ok(())
    }

    fn step(&self, runner: Runner) -> Step {
        let module = format!("soak::{}::", self.name.replace('-', "_"));
        // One at a time: each counts on its servers, and some on the clock.
        let line = match runner {
            Runner::Nextest => {
                format!(
                    "nextest run --profile soak --workspace --features full --test-threads 1 \
                     --no-capture {module}"
                )
            }
            Runner::CargoTest => format!(
                "test --workspace --features full --tests {module} -- --test-threads 1 --nocapture"
            ),
        };
        Step::new("soak", &line)
    }

    fn variables(&self, seed: u64) -> [(String, String); 2] {
        let usual = SOAKS.iter().find(|(name, ..)| *name == self.name).map_or(1, |soak| soak.1);
        let rounds = self.rounds.unwrap_or(usual);
        [
            ("SENDOFF_SOAK_ROUNDS".to_owned(), rounds.to_string()),
            ("SENDOFF_SOAK_SEED".to_owned(), seed.to_string()),
        ]
    }
}

/// Another one each time.
fn some_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sigstop(rounds: Option<u32>) -> Soak {
        Soak { name: "sigstop".into(), rounds, minutes: None, seed: None }
    }

    #[test]
    fn a_soak_is_the_tests_of_its_module_told_how_many_rounds() {
        let line = |runner| sigstop(None).step(runner).arguments.join(" ");
        assert!(line(Runner::Nextest).ends_with("--no-capture soak::sigstop::"));
        assert!(line(Runner::CargoTest).contains(" soak::sigstop:: -- --test-threads 1"));
        let rounds = |soak: &Soak| soak.variables(4711)[0].1.clone();
        assert_eq!(rounds(&sigstop(None)), "50", "its usual ones");
        assert_eq!(rounds(&sigstop(Some(3))), "3");
        assert_eq!(sigstop(None).variables(4711)[1].1, "4711");
    }
}
