//! Where the next walk over the rows in line begins.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::{WalkFrom, Walked};

/// Where to look for rows in line: from the beginning on, in laps. What commits late, or is put in line again,
/// lies before where a lap has come to, so another lap follows; where laps are long, not at once, and what is
/// new is looked for at the end meanwhile.
#[derive(Debug)]
pub(crate) struct Walk {
    after: i64,
    /// When the lap began that is under way.
    began: Option<Instant>,
    /// When the next one may begin.
    again_at: Instant,
}

/// Rows of one look.
const ROWS: usize = 1_000;

/// A lap that takes no longer than this is made each time.
const SHORT: Duration = Duration::from_millis(10);

impl Walk {
    pub(crate) fn new(now: Instant) -> Self {
        Self { after: 0, began: None, again_at: now }
    }

    /// Where to look now.
    pub(crate) fn next(&mut self, now: Instant) -> WalkFrom {
        if self.began.is_none() && now >= self.again_at {
            (self.after, self.began) = (0, Some(now));
        }
        WalkFrom { after: self.after, rows: ROWS }
    }

    /// This was seen. Answers whether there may be more.
    pub(crate) fn walked(&mut self, walked: Option<Walked>, now: Instant) -> bool {
        let Some(walked) = walked else { return true };
        self.after = walked.last.map_or(self.after, |last| self.after.max(last));
        if !walked.end {
            return true;
        }
        if let Some(began) = self.began.take() {
            let took = now.saturating_duration_since(began);
            self.again_at = if took <= SHORT { now } else { now + 2 * took };
        }
        false
    }

    /// Something was put in line before where it has come to.
    pub(crate) fn again(&mut self, now: Instant) {
        (self.began, self.again_at) = (None, now);
    }

    /// How long until what lies before is looked at; nothing if it was.
    pub(crate) fn hidden_for(&self, now: Instant) -> Option<Duration> {
        let left = self.again_at.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(last: i64, end: bool) -> Option<Walked> {
        Some(Walked { last: Some(last), rows: 1, end, ..Walked::default() })
    }

    #[test]
    fn short_laps_follow_each_other_and_long_ones_leave_time_for_what_is_new() {
        let start = Instant::now();
        let mut walk = Walk::new(start);
        assert_eq!(walk.next(start).after, 0);
        assert!(!walk.walked(seen(10, true), start));
        assert_eq!(walk.next(start).after, 0, "that took no time");
        let second = Duration::from_secs(1);
        assert!(walk.walked(seen(1_000, false), start + second));
        assert_eq!(walk.next(start + second).after, 1_000);
        assert!(!walk.walked(seen(1_500, true), start + second));
        assert_eq!(walk.next(start + second).after, 1_500);
        assert_eq!(walk.hidden_for(start + second), Some(2 * second));
        assert_eq!(walk.next(start + 3 * second).after, 0);
        walk.walked(seen(1_600, true), start + 5 * second);
        walk.again(start + 5 * second);
        assert_eq!(walk.next(start + 5 * second).after, 0, "something lies there");
        assert!(walk.walked(None, start), "there was no room to look");
    }
}
