//! Polling less and less often while a pair finds nothing.

use std::time::Duration;

/// How a pair that finds nothing looks less and less often.
///
/// Up to `after` polls in vain the interval stays as it is; each further one multiplies it, up to
/// `longest`. Anything published sets it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct IdleBackoff {
    /// Polls in vain before it begins.
    pub after: u32,
    /// What each further one multiplies the interval by; 1 or less is no back-off.
    pub factor: u32,
    /// The longest interval it leads to.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub longest: Duration,
}

impl Default for IdleBackoff {
    /// After 3 polls, ×2, up to 60 s.
    fn default() -> Self {
        Self { after: 3, factor: 2, longest: Duration::from_secs(60) }
    }
}

impl IdleBackoff {
    /// Always the interval itself.
    pub const OFF: Self = Self { after: u32::MAX, factor: 1, longest: Duration::ZERO };

    /// How long to wait after so many polls in vain, one after the other.
    pub fn delay(&self, interval: Duration, empty: u32) -> Duration {
        let steps = empty.saturating_sub(self.after);
        if steps == 0 || self.factor <= 1 {
            return interval;
        }
        let factor = self.factor.checked_pow(steps).unwrap_or(u32::MAX);
        // An interval that is longer by itself is not made shorter.
        interval.saturating_mul(factor).min(self.longest.max(interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds J7.
    #[test]
    fn after_three_polls_in_vain_the_interval_doubles_up_to_a_minute() {
        let delays: Vec<_> = (0..=11)
            .map(|empty| IdleBackoff::default().delay(Duration::from_secs(1), empty).as_secs())
            .collect();
        assert_eq!(delays, [1, 1, 1, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    /// Holds J7: every number can be another, and it can be off.
    #[test]
    fn it_can_be_off_and_never_overflows() {
        let second = Duration::from_secs(1);
        assert_eq!(IdleBackoff::OFF.delay(second, u32::MAX), second);
        let steep = IdleBackoff { after: 0, factor: u32::MAX, longest: Duration::MAX };
        assert_eq!(steep.delay(Duration::MAX, u32::MAX), Duration::MAX);
        let slow = Duration::from_secs(600);
        assert_eq!(IdleBackoff::default().delay(slow, 50), slow);
    }
}
