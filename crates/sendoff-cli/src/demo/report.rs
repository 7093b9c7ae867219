//! What the demo prints at its end, for people and as JSON.

use std::fmt;
use std::time::Duration;

use indicatif::HumanCount;
use serde::Serialize;

use super::judge::{Found, MAX_ATTEMPTS};
use super::tally::Tally;

/// What came of it. The fields are an interface: scripts read them.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Events whose transaction committed, of all runs on this file.
    written: u64,
    /// Events whose transaction was rolled back, in this run.
    rolled_back: u64,
    /// Events delivered at least once, of all runs.
    delivered: u64,
    /// Successful deliveries beyond the first of each event.
    duplicates: u64,
    /// Of these, the ones that no crash explains.
    unexplained: u64,
    lost: u64,
    phantoms: u64,
    dead: u64,
    /// Events still owed, after Ctrl-C.
    pending: u64,
    /// Promises the checker found broken.
    violations: u64,
    /// Deliveries of this run straight from memory.
    hot: u64,
    /// Deliveries of this run by way of the table.
    cold: u64,
    failed_attempts: u64,
    /// From the write to the end of the delivery, to an eighth.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    seconds: f64,
    seed: u64,
    #[serde(skip)]
    told: Vec<String>,
    /// What became of what the demo made.
    #[serde(skip)]
    left: Option<String>,
}

impl Report {
    pub(crate) fn new(
        found: &Found,
        tally: &Tally,
        took: Duration,
        seed: u64,
        left: Option<String>,
    ) -> Self {
        let counted = tally.counted();
        let millis = |percent| {
            let took = tally.latency.percentile(percent)?;
            Some((took.as_secs_f64() * 100_000.0).round() / 100.0)
        };
        Self {
            written: found.written,
            rolled_back: found.rolled_back,
            delivered: found.delivered,
            duplicates: found.duplicates,
            unexplained: found.unexplained,
            lost: found.lost,
            phantoms: found.phantoms,
            dead: found.dead,
            pending: found.pending,
            violations: found.violations,
            hot: counted.hot,
            cold: counted.cold,
            failed_attempts: counted.failed,
            p50_ms: millis(50),
            p99_ms: millis(99),
            seconds: (took.as_secs_f64() * 1_000.0).round() / 1_000.0,
            seed,
            told: found.told.clone(),
            left,
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.violations == 0
    }

    /// What became of what the demo made, for people.
    pub(crate) fn left(&self) -> Option<&str> {
        self.left.as_deref()
    }

    /// The broken promises, for people.
    pub(crate) fn complaints(&self) -> impl Iterator<Item = String> {
        let more = self.violations - self.told.len() as u64;
        let more = (more > 0).then(|| format!("  and {} more", HumanCount(more)));
        self.told.iter().map(|violation| format!("  {violation}")).chain(more)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.violations {
            0 => writeln!(f, "Every promise was kept.\n")?,
            1 => writeln!(f, "A promise was broken.\n")?,
            many => writeln!(f, "{} promises were broken.\n", HumanCount(many))?,
        }
        let count = HumanCount;
        let mut line = |name: &str, number: u64, more: &str| {
            let text = format!("  {name:<12}{:>10}   {more}", count(number).to_string());
            writeln!(f, "{}", text.trim_end())
        };
        line("written", self.written, &format!("{} rolled back", count(self.rolled_back)))?;
        let paths = format!("in this run {} hot, {} cold", count(self.hot), count(self.cold));
        let paths = format!("{paths}; {} attempts failed", count(self.failed_attempts));
        line("delivered", self.delivered, &paths)?;
        line("lost", self.lost, "")?;
        line("phantoms", self.phantoms, "")?;
        let explained = self.duplicates.saturating_sub(self.unexplained);
        let why = if explained > 0 { "on their way when an earlier run ended" } else { "" };
        line("duplicates", self.duplicates, why)?;
        let why = format!("each failed {MAX_ATTEMPTS} times");
        line("dead", self.dead, if self.dead > 0 { &why } else { "" })?;
        if self.pending > 0 {
            let (gone, kept) = ("gone with the temporary file", "left for --resume");
            line("pending", self.pending, if self.left.is_some() { kept } else { gone })?;
        }
        if let (Some(p50), Some(p99)) = (self.p50_ms, self.p99_ms) {
            writeln!(f, "\n  half of them were delivered within {p50} ms, 99 % within {p99} ms")?;
        }
        write!(f, "  {:.1} s, seed {}", self.seconds, self.seed)
    }
}
