//! From a commit to its handler.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What one round saw, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Latency {
    /// From the call of commit to the start of the handler.
    pub(crate) called: Percentiles,
    /// From the database's answer to the start of the handler.
    pub(crate) replied: Percentiles,
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after the call {}, after the reply {}", self.called, self.replied)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Percentiles {
    fn of(mut micros: Vec<f64>) -> Self {
        micros.sort_by(f64::total_cmp);
        Self { p50: percentile(&micros, 0.50), p99: percentile(&micros, 0.99) }
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.0} µs p99 {:.0} µs", self.p50, self.p99)
    }
}

/// The smallest value that `share` of all values do not exceed; zero of nothing.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

/// When each numbered event was committed and handled. Lock-free: taking a time must cost nothing.
#[derive(Debug)]
pub(crate) struct Stamps {
    started: Instant,
    events: Vec<Stamp>,
}

/// Nanoseconds since the start; zero is never.
#[derive(Debug, Default)]
struct Stamp {
    called: AtomicU64,
    replied: AtomicU64,
    handled: AtomicU64,
}

impl Stamps {
    pub(crate) fn new(events: usize) -> Self {
        let events = std::iter::repeat_with(Stamp::default).take(events).collect();
        Self { started: Instant::now(), events }
    }

    pub(crate) fn called(&self, number: u64) {
        self.stamp(number, |stamp| &stamp.called);
    }

    pub(crate) fn replied(&self, number: u64) {
        self.stamp(number, |stamp| &stamp.replied);
    }

    /// The first delivery counts.
    pub(crate) fn handled(&self, number: u64) {
        self.stamp(number, |stamp| &stamp.handled);
    }

    fn stamp(&self, number: u64, which: impl Fn(&Stamp) -> &AtomicU64) {
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
        if let Some(stamp) = usize::try_from(number).ok().and_then(|at| self.events.get(at)) {
            let _ = which(stamp).compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Over the events that went the whole way.
    pub(crate) fn latency(&self) -> Latency {
        let (mut called, mut replied) = (Vec::new(), Vec::new());
        for stamp in &self.events {
            let [from_call, from_reply, handled] = [&stamp.called, &stamp.replied, &stamp.handled]
                .map(|time| time.load(Ordering::Relaxed));
            if handled > 0 && from_call > 0 && from_reply > 0 {
                called.push(micros(from_call, handled));
                replied.push(micros(from_reply, handled));
            }
        }
        Latency { called: Percentiles::of(called), replied: Percentiles::of(replied) }
    }
}

fn micros(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.50), 50.0);
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(percentile(&hundred[..1], 0.99), 1.0);
        assert_eq!(percentile(&[], 0.99), 0.0);
    }

    #[test]
    fn times_are_told_in_microseconds() {
        assert_eq!(micros(5_000, 7_000), 2.0);
    }

    #[test]
    fn an_event_that_was_not_handled_does_not_count() {
        let stamps = Stamps::new(2);
        stamps.called(0);
        stamps.replied(0);
        stamps.called(1);
        assert_eq!(stamps.latency(), Latency::default());
        stamps.handled(7);
    }
}
