//! Which cargo commands a task is made of. Nothing is run here.

use clap::Args;

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

    fn with(mut self, extra: &[String]) -> Self {
        self.arguments.extend_from_slice(extra);
        self
    }
}

/// What runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Nextest,
    CargoTest,
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

pub(crate) fn test(runner: Runner, extra: &[String], docs: Docs) -> Vec<Step> {
    let tests = match runner {
        Runner::Nextest => "nextest run --workspace --all-features",
        Runner::CargoTest => "test --workspace --all-features --all-targets",
    };
    let mut steps = vec![Step::new("tests", tests).with(extra)];
    // Never left out unasked: extra arguments may be as harmless as `--no-fail-fast`.
    if docs == Docs::Run {
        steps.push(Step::new("documented examples", "test --doc --workspace --all-features"));
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

/// Whether Cargo finds versions for them, and they compile; and what does not, with a message that helps.
fn outside() -> impl Iterator<Item = Step> {
    let check = |name, more: &str| {
        let manifest = format!("--manifest-path xtask/outside/{name}/Cargo.toml");
        let arguments = format!("check {manifest} --target-dir target/outside {more}");
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
        Step::new("lints", "clippy --workspace --all-targets --all-features -- -D warnings"),
    ];
    steps.extend(test(runner, &[], Docs::Run));
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
            lines(&test(Runner::Nextest, &[], Docs::Run)),
            [
                "nextest run --workspace --all-features",
                "test --doc --workspace --all-features",
                "check --manifest-path xtask/outside/plain/Cargo.toml --target-dir target/outside",
                "check --manifest-path xtask/outside/plain/Cargo.toml --target-dir target/outside \
                 --features sendoff/postgres-sqlx,sendoff/mysql-sea-orm,sendoff/sqlite",
                "check --manifest-path xtask/outside/plain/Cargo.toml --target-dir target/outside \
                 --features sendoff/postgres-sea-orm,sendoff/mysql,sendoff/sqlite-sqlx",
                "check --manifest-path xtask/outside/rusqlite/Cargo.toml --target-dir target/outside",
                "check --manifest-path xtask/outside/sqlx-08/Cargo.toml --target-dir target/outside",
                "check --manifest-path xtask/outside/rusqlite/Cargo.toml --target-dir target/outside \
                 --example refused",
            ]
        );
        assert_eq!(
            lines(&test(Runner::CargoTest, &["poller".into()], Docs::LeaveOut)),
            ["test --workspace --all-features --all-targets poller"]
        );
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
