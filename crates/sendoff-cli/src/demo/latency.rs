use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets in each power of two; a percentile is off by an eighth at most.
const STEPS: u32 = 8;
const BUCKETS: usize = 64 * STEPS as usize;

/// How long deliveries took, in a fixed number of buckets.
#[derive(Debug)]
pub(crate) struct Latency([AtomicU64; BUCKETS]);

impl Default for Latency {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Latency {
    pub(crate) fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0[bucket(micros)].fetch_add(1, Ordering::Relaxed);
    }

    /// The time within which `percent` of the deliveries were made; none if there were none.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let wanted = (total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map(|bucket| Duration::from_micros(upper_end(bucket)))
    }
}

fn bucket(micros: u64) -> usize {
    let steps = u64::from(STEPS);
    if micros < steps {
        return micros as usize;
    }
    let power = micros.ilog2();
    // The three bits behind the highest one.
    let step = (micros >> (power - STEPS.ilog2())) & (steps - 1);
    ((power - STEPS.ilog2() + 1) * STEPS) as usize + step as usize
}

fn upper_end(bucket: usize) -> u64 {
    let steps = STEPS as usize;
    if bucket < steps {
        return bucket as u64;
    }
    let (power, step) = (bucket / steps - 1, bucket % steps);
    let end = ((steps + step + 1) as u128) << power;
    u64::try_from(end - 1).unwrap_or(u64::MAX)
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
    fn every_time_has_a_bucket_that_ends_behind_it() {
        for micros in [0, 1, 7, 8, 9, 15, 16, 17, 1_000, 1 << 40, u64::MAX] {
            assert!(upper_end(bucket(micros)) >= micros, "{micros}");
        }
    }
}
