//! Counters of the demo that its view and its report read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sendoff::event::Lane;

use super::latency::Latency;

/// What this process did so far, for the view and the report. The checker counts for itself.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    written: AtomicU64,
    rolled_back: AtomicU64,
    hot: AtomicU64,
    cold: AtomicU64,
    failed: AtomicU64,
    pub(crate) latency: Latency,
}

/// [`Tally`] at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) written: u64,
    pub(crate) rolled_back: u64,
    pub(crate) hot: u64,
    pub(crate) cold: u64,
    pub(crate) failed: u64,
}

impl Counted {
    pub(crate) fn delivered(&self) -> u64 {
        self.hot + self.cold
    }
}

impl Tally {
    pub(crate) fn written(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rolled_back(&self) {
        self.rolled_back.fetch_add(1, Ordering::Relaxed);
    }

    /// `took` is none where it says nothing about this run.
    pub(crate) fn delivered(&self, lane: Option<Lane>, took: Option<Duration>) {
        let counter = match lane {
            Some(Lane::Hot) => &self.hot,
            Some(Lane::Cold) | None => &self.cold,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(took) = took {
            self.latency.add(took);
        }
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> Counted {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counted {
            written: read(&self.written),
            rolled_back: read(&self.rolled_back),
            hot: read(&self.hot),
            cold: read(&self.cold),
            failed: read(&self.failed),
        }
    }
}
