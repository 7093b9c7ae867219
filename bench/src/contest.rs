//! Who is measured, and the loop that measures them in turns.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::measure::{Tally, turns};

/// Who does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Hand-written code: the limit.
    ByHand,
    /// The library.
    Sendoff,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByHand => "by hand",
            Self::Sendoff => "sendoff",
        })
    }
}

/// Measures each contender once a round, in turns, and tells progress on stderr.
pub(crate) async fn alternate<K, T>(
    title: &str,
    rounds: usize,
    contenders: &[K],
    mut measure: impl AsyncFnMut(K) -> Result<T>,
) -> Result<Tally<K, T>>
where
    K: Copy + PartialEq + fmt::Display,
    T: fmt::Display,
{
    let mut tally = Tally::new(contenders);
    for turn in turns(rounds, contenders.len()) {
        let contender = contenders[turn.contender];
        let value = measure(contender).await.with_context(|| format!("{title}, {contender}"))?;
        progress(format_args!("{title}: round {}/{rounds}, {contender}: {value}", turn.round + 1));
        tally.add(turn.contender, value);
    }
    Ok(tally)
}

/// Progress goes to stderr: stdout belongs to the findings.
pub(crate) fn progress(line: fmt::Arguments<'_>) {
    eprintln!("bench: {line}");
}

/// A number of things in a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) f64);

impl Rate {
    pub(crate) fn new(count: u64, took: Duration) -> Self {
        Self(count as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}/s", self.0)
    }
}
