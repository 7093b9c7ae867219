//! Runs simulated worlds, one runtime for each core, and prints the seeds that break a promise.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use sendoff_testkit::history::Verdict;
use sendoff_testkit::sim::{Bug, Report, simulate_with};

/// Runs simulated worlds and judges their histories.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  cargo xtask sim --seeds 500\n  cargo xtask sim --seed 17\n  \
    cargo xtask sim --seeds 100 -- --bug no-fence")]
struct Options {
    /// How many worlds.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The seed of the first.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One world only, with its history printed if it breaks a promise.
    #[arg(long)]
    seed: Option<u64>,
    /// With a mistake planted in every world, to see which of them find it.
    #[arg(long)]
    bug: Option<Bug>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    // Scripted panics are part of every world.
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&sendoff_testkit::sim::SCRIPTED_PANIC) {
            eprintln!("{panic}");
        }
    }));
    let seeds = match options.seed {
        Some(seed) => seed..seed + 1,
        None => options.from..options.from.saturating_add(options.seeds),
    };
    let began = Instant::now();
    let (runs, failed) = run_all(seeds, options.bug);
    eprintln!("{}", runs.summary());
    for report in &failed {
        if options.seed.is_some() {
            show(report);
        }
        eprintln!("{report}\n  again with: cargo xtask sim --seed {}", report.seed);
    }
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{} worlds, {} broke a promise, {seconds:.1} s", runs.worlds, failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the histories in which a promise was broken.
fn show(report: &Report) {
    let Report { published, .. } = report;
    let broken = |name: &str| !published.verdicts.get(name).is_some_and(Verdict::is_clean);
    let pairs = published.log.histories().filter(|(name, _)| broken(name));
    let delivered = report.verdict.is_clean() && report.stalled.is_empty();
    let outboxes =
        (!delivered || !report.innocents.is_empty()).then_some(("outboxes", &report.history));
    for (name, history) in outboxes.into_iter().chain(pairs) {
        eprintln!("{name}:");
        for (position, entry) in history.entries().iter().enumerate() {
            eprintln!("{position:5} {entry:?}");
        }
    }
}

/// What all worlds came to.
#[derive(Debug, Default)]
struct Totals {
    worlds: u64,
    written: u64,
    runs: u64,
    duplicates: u64,
    fenced: u64,
    faults: u64,
    dead: u64,
    dawdled: Duration,
    facts: u64,
    published: u64,
    repeated: u64,
    moves_fenced: u64,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        let verdict = &report.verdict;
        self.worlds += 1;
        self.written += verdict.written;
        self.runs += verdict.runs;
        self.duplicates += verdict.duplicates;
        self.fenced += verdict.fenced;
        self.faults += verdict.faults;
        self.dead += verdict.dead;
        self.dawdled += report.dawdled;
        for verdict in report.published.verdicts.values() {
            self.facts += verdict.written;
            self.published += verdict.runs;
            self.repeated += verdict.duplicates;
            self.moves_fenced += verdict.fenced;
            self.faults += verdict.faults;
        }
    }

    fn summary(&self) -> String {
        format!(
            "{} events committed, {} runs, {} faults, {} duplicates explained by them, \
             {} settlements fenced, {} dead, keys looked at {:.1} s late in all; {} facts for pairs, {} runs, {} repeated, {} moves fenced",
            self.written,
            self.runs,
            self.faults,
            self.duplicates,
            self.fenced,
            self.dead,
            self.dawdled.as_secs_f64(),
            self.facts,
            self.published,
            self.repeated,
            self.moves_fenced
        )
    }
}

/// Runs every seed, one thread and so one runtime for each core, and returns those that failed.
fn run_all(seeds: std::ops::Range<u64>, bug: Option<Bug>) -> (Totals, Vec<Report>) {
    let next = AtomicU64::new(seeds.start);
    let results = Mutex::new((Totals::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let report = simulate_with(seed, bug);
                    let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
                    results.0.add(&report);
                    if results.0.worlds % 50 == 0 {
                        eprintln!("{} of {} worlds", results.0.worlds, seeds.end - seeds.start);
                    }
                    if !report.is_clean() {
                        results.1.push(report);
                    }
                }
            });
        }
    });
    let (totals, mut failed) = results.into_inner().unwrap_or_else(|e| e.into_inner());
    failed.sort_by_key(|report| report.seed);
    (totals, failed)
}
