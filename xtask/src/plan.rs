//! Which cargo commands a task is made of. Nothing is run here.

use clap::Args;

/// One cargo command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// What it is for.
    pub(crate) title: &'static str,
    /// The arguments after `cargo`.
    pub(crate) arguments: Vec<String>,
}

impl Step {
    pub(crate) fn new(title: &'static str, arguments: &str) -> Self {
        Self { title, arguments: arguments.split_whitespace().map(str::to_owned).collect() }
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

/// Whether documented examples are run.
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

pub(crate) fn test(runner: Runner, extra: &[String], docs: Docs) -> Vec<Step> {
    let tests = match runner {
        Runner::Nextest => "nextest run --workspace --all-features",
        Runner::CargoTest => "test --workspace --all-features --all-targets",
    };
    let mut steps = vec![Step::new("tests", tests).with(extra)];
    // Never left out unasked: extra arguments may be as harmless as `--no-fail-fast`.
    if docs == Docs::Run {
        steps.push(Step::new("documented examples", "test --doc --workspace --all-features"));
    }
    steps
}

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
            ["nextest run --workspace --all-features", "test --doc --workspace --all-features"]
        );
        assert_eq!(
            lines(&test(Runner::CargoTest, &["poller".into()], Docs::LeaveOut)),
            ["test --workspace --all-features --all-targets poller"]
        );
    }

    #[test]
    fn ci_is_format_lints_and_all_tests() {
        let titles: Vec<_> = ci(Runner::Nextest).iter().map(|step| step.title).collect();
        assert_eq!(titles, ["format", "lints", "tests", "documented examples"]);
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
