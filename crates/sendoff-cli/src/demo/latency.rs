//! How long deliveries of the demo took.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Digits that a percentile is right to.
const DIGITS: u8 = 2;
/// A delivery that took longer counts as one that took a day.
const DAY_MICROS: u64 = 24 * 60 * 60 * 1_000_000;

/// How long deliveries took. Takes the same memory for a thousand and for a billion of them.
#[derive(Debug)]
pub(crate) struct Latency(Mutex<Histogram<u64>>);

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, DAY_MICROS, DIGITS);
        Self(Mutex::new(histogram.expect("such bounds and digits are allowed")))
    }
}

impl Latency {
    pub(crate) fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros);
    }

    /// The time within which `percent` of the deliveries were made; none if there were none.
    pub(crate) fn percentile(&self, percent: u32) -> Option<Duration> {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = histogram.value_at_percentile(f64::from(percent));
        (!histogram.is_empty()).then(|| Duration::from_micros(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_right_to_an_eighth() {
        let latency = Latency::default();
        assert_eq!(latency.percentile(50), None);
        (1..=1_000).for_each(|millis| latency.add(Duration::from_millis(millis)));
        for (percent, exact) in [(50, 500), (99, 990)] {
            let found = latency.percentile(percent).unwrap().as_millis();
            assert!((exact..exact * 9 / 8).contains(&found), "p{percent} is {found} ms");
        }
    }

    #[test]
    fn the_longest_times_are_counted_too() {
        let latency = Latency::default();
        latency.add(Duration::MAX);
        assert!(latency.percentile(99).unwrap() > Duration::from_secs(3_600));
    }
}
