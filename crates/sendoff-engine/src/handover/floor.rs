use std::time::Duration;

use sendoff_core::Timestamp;
use tokio::time::Instant;

/// Where the next look at the table begins.
///
/// Rows that were claimed stay in the index until the database has cleaned it up, and one long
/// snapshot keeps it from that: every look from the beginning then walks over all that was claimed
/// since. So a look begins where the last one came to, but for one from the beginning every so often,
/// which finds what became visible late: a transaction that took long to commit, a row that was
/// released. Such looks take about a tenth of the time, however long each takes, and one is made at a
/// time; where they are quick, nearly every one is.
#[derive(Debug)]
pub(crate) struct Floor {
    /// The latest due time that the last look with any rows came to.
    seen: Option<Timestamp>,
    /// When the next look from the beginning may be made.
    whole_at: Instant,
    /// How long nobody else makes one while one is under way, or was given up.
    interval: Duration,
}

/// So many times as long as a look from the beginning took, the next one waits.
const REST: u32 = 9;

impl Floor {
    pub(crate) fn new(interval: Duration, now: Instant) -> Self {
        Self { seen: None, whole_at: now, interval }
    }

    /// Where a look begins that is made now; `None` is the beginning.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Timestamp> {
        if now < self.whole_at {
            return self.seen;
        }
        self.whole_at = now + self.interval;
        None
    }

    /// A look ended, and came to rows due at `latest`, if to any.
    pub(crate) fn came_to(&mut self, latest: Option<Timestamp>) {
        self.seen = latest.or(self.seen);
    }

    /// Rows that were seen are due again as they were: the next look is from the beginning.
    pub(crate) fn forget(&mut self) {
        self.seen = None;
    }

    /// A look from the beginning ended, however it did.
    pub(crate) fn looked_whole(&mut self, took: Duration, now: Instant) {
        self.whole_at = now + took.saturating_mul(REST);
    }

    /// How long until a look from the beginning may be made.
    pub(crate) fn whole_in(&self, now: Instant) -> Duration {
        self.whole_at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn slow_looks_from_the_beginning_take_a_tenth_of_the_time() {
        let start = Instant::now();
        let mut floor = Floor::new(5 * SECOND, start);
        assert_eq!(floor.next(start), None, "nothing was seen yet");
        let seen = Timestamp::from_micros(7);
        floor.came_to(Some(seen));
        floor.looked_whole(SECOND / 10, start);
        assert_eq!(floor.next(start), Some(seen));
        assert_eq!(floor.whole_in(start), SECOND * 9 / 10);
        floor.came_to(None);
        assert_eq!(floor.next(start + SECOND / 2), Some(seen), "an empty look came to nothing");
        assert_eq!(floor.next(start + SECOND * 9 / 10), None);
        floor.looked_whole(2 * SECOND, start);
        assert_eq!(floor.whole_in(start), 18 * SECOND, "whatever the interval is");
    }

    #[test]
    fn one_look_from_the_beginning_is_made_at_a_time() {
        let start = Instant::now();
        let mut floor = Floor::new(5 * SECOND, start);
        floor.came_to(Some(Timestamp::from_micros(7)));
        assert_eq!(floor.next(start), None);
        assert!(floor.next(start + SECOND).is_some(), "another is under way");
        assert_eq!(floor.next(start + 5 * SECOND), None, "it was given up");
    }

    #[test]
    fn without_anything_seen_and_after_a_quick_look_the_next_begins_at_the_beginning() {
        let start = Instant::now();
        let mut floor = Floor::new(5 * SECOND, start);
        floor.looked_whole(SECOND, start);
        assert_eq!(floor.next(start), None);
        floor.came_to(Some(Timestamp::from_micros(7)));
        assert!(floor.next(start).is_some());
        floor.forget();
        assert_eq!(floor.next(start), None, "what was put back is looked for");
        floor.came_to(Some(Timestamp::from_micros(7)));
        floor.looked_whole(Duration::ZERO, start);
        assert_eq!(floor.next(start), None);
    }
}
