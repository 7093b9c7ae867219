//! Log lines that come in bursts: the first few of them, and then how many more there were.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// For so long lines of one kind are one burst.
const BURST: Duration = Duration::from_secs(60);
/// So many of them are written.
const WRITTEN: u32 = 10;
/// So many kinds are told apart; the rest is one kind. They come from whoever writes events.
const KINDS: usize = 200;

/// Which lines of a kind are written: the first ten in a minute. The next one after that says how many were
/// not. An outage at a thousand events a second must not fill a disk, and metrics count every one.
#[derive(Debug, Default)]
pub(crate) struct Bursts(Mutex<BTreeMap<Box<str>, Burst>>);

#[derive(Debug, Clone, Copy)]
struct Burst {
    began: Instant,
    written: u32,
    unwritten: u64,
}

/// A line that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    /// How many of its kind were not, since the last that was.
    pub(crate) unwritten: Option<u64>,
}

impl Bursts {
    /// Whether to write a line of this kind.
    pub(crate) fn line(&self, kind: &str, now: Instant) -> Option<Line> {
        let mut kinds = lock(&self.0);
        let kind = if kinds.contains_key(kind) || kinds.len() < KINDS { kind } else { "" };
        let fresh = Burst { began: now, written: 0, unwritten: 0 };
        let burst = kinds.entry(kind.into()).or_insert(fresh);
        if now.saturating_duration_since(burst.began) >= BURST {
            *burst = Burst { unwritten: burst.unwritten, ..fresh };
        }
        if burst.written >= WRITTEN {
            burst.unwritten += 1;
            return None;
        }
        burst.written += 1;
        let unwritten = std::mem::take(&mut burst.unwritten);
        Some(Line { unwritten: (unwritten > 0).then_some(unwritten) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_of_a_kind_are_written_in_a_minute_and_the_rest_is_counted() {
        let (bursts, start) = (Bursts::default(), Instant::now());
        let written = |kind: &str, now| bursts.line(kind, now).map(|line| line.unwritten);
        let lines: Vec<_> = (0..1_000).filter_map(|_| written("mail", start)).collect();
        assert_eq!(lines, [None; 10]);
        assert_eq!(written("order", start), Some(None), "of another kind");
        assert_eq!(written("mail", start + BURST), Some(Some(990)));
        assert_eq!(written("mail", start + BURST), Some(None));
    }

    #[test]
    fn kinds_beyond_the_bound_are_one() {
        let (bursts, now) = (Bursts::default(), Instant::now());
        let lines = (0..5_000).filter_map(|kind| bursts.line(&kind.to_string(), now));
        assert_eq!(lines.count(), KINDS + WRITTEN as usize);
    }
}
