//! Where claims begin, so that they do not walk over rows that are long claimed.

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
///
/// There may be so much to walk over that a look from the beginning is given up. Then the beginning is
/// asked for by itself, which may take longer than a claim, and looks begin there.
#[derive(Debug)]
pub(crate) struct Floor {
    /// The latest due time that looks came to.
    seen: Option<Timestamp>,
    /// Where pending rows begin, where that was asked for: for one look.
    beginning: Option<Timestamp>,
    /// Whether a look from the beginning is too much for a claim.
    is_blind: bool,
    /// When the next look from the beginning may be made.
    whole_at: Instant,
    /// How long nobody else makes one while one is under way, or was given up.
    interval: Duration,
}

/// Where a look begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the first row there is.
    Beginning,
    /// With rows due then.
    From(Timestamp),
    /// The beginning has to be asked for; until it is known, with rows due then.
    Unknown(Option<Timestamp>),
}

/// So many times as long as a look from the beginning took, the next one waits.
const REST: u32 = 9;

impl Floor {
    pub(crate) fn new(interval: Duration, now: Instant) -> Self {
        Self { seen: None, beginning: None, is_blind: false, whole_at: now, interval }
    }

    /// Where a look begins that is made now.
    pub(crate) fn next(&mut self, now: Instant) -> Start {
        match self.beginning.take().or(self.seen) {
            Some(from) if now < self.whole_at => Start::From(from),
            _ => self.next_whole(now),
        }
    }

    /// Where a look begins that leaves nothing out.
    pub(crate) fn next_whole(&mut self, now: Instant) -> Start {
        self.whole_at = now + self.interval;
        if self.is_blind { Start::Unknown(self.seen) } else { Start::Beginning }
    }

    /// A look ended that came to rows due at `latest`, if to any, and perhaps to no more than these.
    pub(crate) fn came_to(&mut self, latest: Option<Timestamp>, full: bool) {
        self.seen = if full { latest.or(self.seen) } else { latest.max(self.seen) };
    }

    /// Rows that were seen are due again as they were: the next look leaves nothing out.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.whole_at = now;
    }

    /// A look from the beginning ended, however it did.
    pub(crate) fn looked_whole(&mut self, took: Duration, now: Instant) {
        self.whole_at = now + took.saturating_mul(REST);
    }

    /// A look from the beginning did not end in time.
    pub(crate) fn gave_up(&mut self) {
        self.is_blind = true;
    }

    /// Nothing pending is due before `beginning`, which took so long to find out; and a claim may take
    /// as long as `limit`.
    pub(crate) fn begins_at(
        &mut self,
        beginning: Timestamp,
        took: Duration,
        limit: Duration,
        now: Instant,
    ) {
        self.beginning = Some(beginning);
        self.seen = self.seen.max(Some(beginning));
        self.is_blind = took > limit / 2;
        self.looked_whole(took, now);
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
    const LIMIT: Duration = Duration::from_secs(5);

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn slow_looks_from_the_beginning_take_a_tenth_of_the_time() {
        let start = Instant::now();
        let mut floor = Floor::new(5 * SECOND, start);
        assert_eq!(floor.next(start), Start::Beginning, "nothing was seen yet");
        floor.came_to(Some(at(7)), true);
        floor.looked_whole(SECOND / 10, start);
        assert_eq!(floor.next(start), Start::From(at(7)));
        assert_eq!(floor.whole_in(start), SECOND * 9 / 10);
        floor.came_to(None, false);
        assert_eq!(floor.next(start + SECOND / 2), Start::From(at(7)), "it came to nothing");
        assert_eq!(floor.next(start + SECOND * 9 / 10), Start::Beginning);
        floor.looked_whole(2 * SECOND, start);
        assert_eq!(floor.whole_in(start), 18 * SECOND, "whatever the interval is");
    }

    #[test]
    fn one_look_from_the_beginning_is_made_at_a_time() {
        let start = Instant::now();
        let mut floor = Floor::new(5 * SECOND, start);
        floor.came_to(Some(at(7)), true);
        assert_eq!(floor.next(start), Start::Beginning);
        assert_eq!(floor.next(start + SECOND), Start::From(at(7)), "another is under way");
        assert_eq!(floor.next(start + 5 * SECOND), Start::Beginning, "it was given up");
    }

    #[test]
    fn without_anything_seen_and_after_a_quick_look_the_next_begins_at_the_beginning() {
        let start = Instant::now();
        let mut floor = Floor::new(5 * SECOND, start);
        floor.looked_whole(SECOND, start);
        assert_eq!(floor.next(start), Start::Beginning);
        floor.came_to(Some(at(7)), true);
        assert_eq!(floor.next(start), Start::From(at(7)));
        floor.forget(start);
        assert_eq!(floor.next(start), Start::Beginning, "what was put back is looked for");
        floor.looked_whole(Duration::ZERO, start);
        assert_eq!(floor.next(start), Start::Beginning);
    }

    #[test]
    fn a_few_late_rows_do_not_bring_the_whole_walk_back() {
        let start = Instant::now();
        let mut floor = Floor::new(5 * SECOND, start);
        floor.came_to(Some(at(7)), true);
        floor.came_to(Some(at(3)), false);
        floor.looked_whole(SECOND, start);
        assert_eq!(floor.next(start), Start::From(at(7)), "that was all there is before");
        floor.came_to(Some(at(4)), true);
        assert_eq!(floor.next(start), Start::From(at(4)), "there may be more");
    }

    #[test]
    fn where_the_walk_is_too_long_for_a_claim_the_beginning_is_asked_for() {
        let start = Instant::now();
        let mut floor = Floor::new(5 * SECOND, start);
        floor.gave_up();
        assert_eq!(floor.next(start), Start::Unknown(None));
        floor.begins_at(at(5), 8 * SECOND, LIMIT, start);
        assert_eq!(floor.next(start), Start::From(at(5)));
        floor.came_to(Some(at(9)), true);
        assert_eq!(floor.next(start), Start::From(at(9)));
        let later = start + 72 * SECOND;
        assert_eq!(floor.next(later), Start::Unknown(Some(at(9))), "claims go on meanwhile");
        floor.begins_at(at(6), SECOND, LIMIT, later);
        assert_eq!(floor.next(later), Start::From(at(6)), "what became visible late");
        floor.came_to(None, false);
        assert_eq!(floor.next(later), Start::From(at(9)));
        assert_eq!(floor.next(later + 9 * SECOND), Start::Beginning, "it was quick this time");
    }
}
