//! Which cargo commands a task is made of. Nothing is run here.

use clap::{Args, ValueEnum};

/// One cargo command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// What it is for.
    pub(crate) title: &'static str,
    /// The arguments after `cargo`.
    pub(crate) arguments: Vec<String>,
    /// What it must say when it fails, as it must; empty where it must not.
    pub(crate) refusals: Vec<&'static str>,
}

impl Step {
    pub(crate) fn new(title: &'static str, arguments: &str) -> Self {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Self { title, arguments, refusals: Vec::new() }
    }

    /// It must fail, and say each line of `source` after `//~`.
    fn refused(mut self, source: &'static str) -> Self {
        let said = source.lines().filter_map(|line| line.trim_start().strip_prefix("//~ "));
        self.refusals.extend(said);
        self
    }

    fn and(mut self, more: &str) -> Self {
        self.arguments.extend(more.split_whitespace().map(str::to_owned));
        self
    }

    fn with(mut self, extra: &[String]) -> Self {
        self.arguments.extend_from_slice(extra);
        self
    }
}

/// What runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runner {
    /// cargo-nextest: a process for each test.
    Nextest,
    /// `cargo test`: a process for each crate's tests, one crate after the other.
    CargoTest,
}

/// Whether tests on MySQL itself are among those that are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mysql {
    Run,
    LeaveOut,
}

/// Whether documented examples are run, and programs outside the workspace checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Docs {
    Run,
    LeaveOut,
}

impl Docs {
    pub(crate) fn unless(left_out: bool) -> Self {
        if left_out { Self::LeaveOut } else { Self::Run }
    }
}

/// Which simulated runs to make.
#[derive(Debug, Default, Args)]
pub(crate) struct Sim {
    /// How many runs, each with the next seed.
    #[arg(long, value_name = "N", conflicts_with = "seed")]
    seeds: Option<u64>,
    /// The first of those seeds.
    #[arg(long, value_name = "SEED", requires = "seeds")]
    from: Option<u64>,
    /// One run, with this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Arguments for the simulator itself.
    #[arg(last = true)]
    extra: Vec<String>,
}

/// The program that lists what is public, which is none of the workspace's.
pub(crate) fn api(check: bool) -> Step {
    let check = if check { " -- --check" } else { "" };
    Step::new(
        "public API",
        &format!("run --quiet --target-dir target/api --manifest-path xtask/api/Cargo.toml{check}"),
    )
}

pub(crate) fn test(runner: Runner, extra: &[String], mysql: Mysql, docs: Docs) -> Vec<Step> {
    let tests = match runner {
        Runner::Nextest => "nextest run --workspace --features full",
        Runner::CargoTest => "test --workspace --features full --all-targets",
    };
    let mut tests = Step::new("tests", tests).with(extra);
    if runner == Runner::CargoTest && mysql == Mysql::LeaveOut {
        // A test cannot end its process where others are in it, and would be made on MariaDB once more.
        let dashes = if extra.iter().any(|it| it == "--") { "" } else { "-- " };
        tests = tests.and(&format!("{dashes}--skip suites::mysql:: --skip on_mysql::"));
    }
    let mut steps = vec![tests];
    // Never left out unasked: extra arguments may be as harmless as `--no-fail-fast`.
    if docs == Docs::Run {
        steps.push(Step::new("documented examples", "test --doc --workspace --features full"));
        steps.extend(outside());
    }
    steps
}

/// Applications that are no members of the workspace, each with other crates and features beside it, and in
/// all of them together each store with each of its drivers alone.
pub(crate) const OUTSIDE: [(&str, &str); 5] = [
    ("plain", ""),
    ("plain", "sendoff/postgres-sqlx,sendoff/mysql-sea-orm,sendoff/sqlite"),
    ("plain", "sendoff/postgres-sea-orm,sendoff/mysql,sendoff/sqlite-sqlx"),
    ("rusqlite", ""),
    ("sqlx-08", ""),
];

/// Whether Cargo finds versions for them, and they compile; and what does not, with a message that helps. In the
/// workspace's own folder, and with its profile, so that nothing is built twice that both have.
fn outside() -> impl Iterator<Item = Step> {
    let check = |name, more: &str| {
        let manifest = format!("--manifest-path xtask/outside/{name}/Cargo.toml");
        let arguments = format!("check {manifest} --target-dir target {more}");
        Step::new("a program outside", &arguments)
    };
    let programs = OUTSIDE.into_iter().map(move |(name, features)| match features {
        "" => check(name, ""),
        features => check(name, &format!("--features {features}")),
    });
    let refused = check("rusqlite", "--example refused").refused(REFUSED);
    programs.chain([refused])
}

const REFUSED: &str = include_str!("../outside/rusqlite/examples/refused.rs");

pub(crate) fn sim(sim: &Sim) -> Vec<Step> {
    let step = Step::new("simulation", "run --package sendoff-testkit --bin sim --profile sim --");
    let numbers = [("--seeds", sim.seeds), ("--from", sim.from), ("--seed", sim.seed)];
    let arguments: Vec<String> = numbers
        .into_iter()
        .filter_map(|(name, number)| Some([name.to_owned(), number?.to_string()]))
        .flatten()
        .chain(sim.extra.iter().cloned())
        .collect();
    vec![step.with(&arguments)]
}

pub(crate) fn ci(runner: Runner) -> Vec<Step> {
    let mut steps = vec![
        Step::new("format", "fmt --all --check"),
        Step::new("lints", "clippy --workspace --all-targets --features full -- -D warnings"),
    ];
    steps.extend(test(runner, &[], Mysql::LeaveOut, Docs::Run));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(steps: &[Step]) -> Vec<String> {
        steps.iter().map(|step| step.arguments.join(" ")).collect()
    }

    #[test]
    fn testing_runs_everything_with_every_feature() {
        assert_eq!(
            lines(&test(Runner::Nextest, &[], Mysql::LeaveOut, Docs::Run)),
            [
                "nextest run --workspace --features full",
                "test --doc --workspace --features full",
                "check --manifest-path xtask/outside/plain/Cargo.toml --target-dir target",
                "check --manifest-path xtask/outside/plain/Cargo.toml --target-dir target \
                 --features sendoff/postgres-sqlx,sendoff/mysql-sea-orm,sendoff/sqlite",
                "check --manifest-path xtask/outside/plain/Cargo.toml --target-dir target \
                 --features sendoff/postgres-sea-orm,sendoff/mysql,sendoff/sqlite-sqlx",
                "check --manifest-path xtask/outside/rusqlite/Cargo.toml --target-dir target",
                "check --manifest-path xtask/outside/sqlx-08/Cargo.toml --target-dir target",
                "check --manifest-path xtask/outside/rusqlite/Cargo.toml --target-dir target \
                 --example refused",
            ]
        );
        assert_eq!(
            lines(&test(Runner::CargoTest, &["poller".into()], Mysql::Run, Docs::LeaveOut)),
            ["test --workspace --features full --all-targets poller"]
        );
        let alone = ["--", "--test-threads", "1"].map(str::to_owned);
        let skips = "--skip suites::mysql:: --skip on_mysql::";
        for (extra, between) in [(&[][..], "--"), (&alone[..], "-- --test-threads 1")] {
            assert_eq!(
                lines(&test(Runner::CargoTest, extra, Mysql::LeaveOut, Docs::LeaveOut)),
                [format!("test --workspace --features full --all-targets {between} {skips}")]
            );
        }
    }

    /// What tests and lints are built with has every feature of every crate, but for those that build a TLS library along.
    #[test]
    fn full_names_every_feature_but_vendored_tls() {
        const LEFT_OUT: [(&str, &str); 2] =
            [("sendoff", "sink-kafka-tls"), ("sendoff-sinks", "kafka-tls")];
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates");
        for entry in std::fs::read_dir(crates).expect("there are crates").flatten() {
            let name = entry.file_name().into_string().expect("a crate's name is text");
            let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml"));
            let manifest = manifest.expect("a crate has a manifest");
            let Some((_, section)) = manifest.split_once("\n[features]\n") else { continue };
            let section = section.split("\n[").next().unwrap_or_default();
            let lines = section.lines().filter(|line| !line.starts_with('#'));
            let text = lines.collect::<Vec<_>>().join(" ");
            let features: std::collections::BTreeMap<_, Vec<_>> = text
                .split(']')
                .filter_map(|feature| feature.split_once('='))
                .map(|(name, of)| (name.trim(), of.split('"').skip(1).step_by(2).collect()))
                .collect();
            let mut reached = vec!["full"];
            let mut at = 0;
            while let Some(feature) = reached.get(at) {
                reached.extend(features.get(feature).into_iter().flatten().copied());
                at += 1;
            }
            for feature in features.keys().filter(|feature| **feature != "default") {
                let left_out = LEFT_OUT.contains(&(&name, feature));
                assert_eq!(!reached.contains(feature), left_out, "{name}: {feature}");
            }
        }
    }

    #[test]
    fn ci_is_format_lints_all_tests_and_the_programs_outside() {
        let mut titles: Vec<_> = ci(Runner::Nextest).iter().map(|step| step.title).collect();
        titles.dedup();
        let all = ["format", "lints", "tests", "documented examples", "a program outside"];
        assert_eq!(titles, all);
    }

    #[test]
    fn the_simulator_gets_the_numbers_that_were_given() {
        let run = "run --package sendoff-testkit --bin sim --profile sim --";
        let many = Sim { seeds: Some(3), from: Some(7), extra: vec!["-v".into()], seed: None };
        assert_eq!(lines(&sim(&many)), [format!("{run} --seeds 3 --from 7 -v")]);
        let one = Sim { seed: Some(4711), ..Sim::default() };
        assert_eq!(lines(&sim(&one)), [format!("{run} --seed 4711")]);
    }
}
