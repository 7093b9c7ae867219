//! Policies that say how long to wait between attempts.

use std::fmt;
use std::time::Duration;

/// A random share in `0.0..1.0`, made at the edge so that decisions stay pure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter(f64);

impl Jitter {
    /// `share`, brought into range if it is not.
    pub fn new(share: f64) -> Self {
        Self(if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 })
    }

    /// The share.
    pub const fn share(self) -> f64 {
        self.0
    }
}

/// How long to wait after a failed attempt.
pub trait RetryPolicy: fmt::Debug + Send + Sync {
    /// The delay after attempt number `attempt` (from 1) failed. Must not panic for any number.
    fn delay(&self, attempt: u32, jitter: Jitter) -> Duration;
}

/// `min(max, base · 2^(attempt−1)) · random(0.5..1.5)`: the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exponential {
    /// The delay after the first failure, before jitter.
    pub base: Duration,
    /// The longest delay, before jitter.
    pub max: Duration,
}

impl Default for Exponential {
    fn default() -> Self {
        Self { base: Duration::from_millis(200), max: Duration::from_secs(60) }
    }
}

impl RetryPolicy for Exponential {
    fn delay(&self, attempt: u32, jitter: Jitter) -> Duration {
        let doublings = attempt.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let delay = self.base.saturating_mul(factor).min(self.max);
        Duration::try_from_secs_f64(delay.as_secs_f64() * (0.5 + jitter.share()))
            .unwrap_or(self.max)
    }
}

/// `min(max, step · attempt)`: 60 s after the first failure, 120 s after the second, up to an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// The delay after the first failure, and what each further one adds.
    pub step: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Default for Linear {
    fn default() -> Self {
        Self { step: Duration::from_secs(60), max: Duration::from_secs(60 * 60) }
    }
}

impl RetryPolicy for Linear {
    fn delay(&self, attempt: u32, _: Jitter) -> Duration {
        self.step.saturating_mul(attempt.max(1)).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Holds B1.
    #[test]
    fn the_delay_doubles_from_200_ms_to_60_s() {
        let delays: Vec<_> = (1..=10)
            .map(|n| Exponential::default().delay(n, Jitter::new(0.5)).as_millis())
            .collect();
        assert_eq!(delays, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000]);
    }

    proptest! {
        /// Holds B1.
        #[test]
        fn the_delay_never_overflows_and_stays_within_half_to_one_and_a_half(
            attempt: u32, share in 0.0..1.0_f64, base_ms in 1..10_000_u64, max_ms in 1..1_000_000_u64,
        ) {
            let policy = Exponential { base: Duration::from_millis(base_ms), max: Duration::from_millis(max_ms) };
            let plain = policy.delay(attempt, Jitter::new(0.5));
            let delay = policy.delay(attempt, Jitter::new(share));
            prop_assert!(plain <= policy.max);
            let ratio = delay.as_secs_f64() / plain.as_secs_f64();
            prop_assert!((0.499..=1.501).contains(&ratio), "{ratio}");
        }
    }

    /// Holds B1.
    #[test]
    fn extreme_policies_do_not_panic() {
        let policy = Exponential { base: Duration::MAX, max: Duration::MAX };
        assert_eq!(policy.delay(u32::MAX, Jitter::new(1.0)), Duration::MAX);
    }

    /// Holds B2.
    #[test]
    fn the_linear_policy_waits_a_minute_longer_each_time() {
        let delays: Vec<_> =
            (1..=3).map(|n| Linear::default().delay(n, Jitter::new(0.9)).as_secs()).collect();
        assert_eq!(delays, [60, 120, 180]);
        let longest = Linear { step: Duration::MAX, max: Duration::MAX };
        assert_eq!(longest.delay(u32::MAX, Jitter::new(0.0)), Duration::MAX);
        let hour = Duration::from_secs(60 * 60);
        assert_eq!(Linear::default().delay(61, Jitter::new(0.0)), hour, "up to an hour");
    }
}
