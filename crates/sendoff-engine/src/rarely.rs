//! Speaking of something that happens again and again without filling the log.

use std::time::Duration;

use tokio::time::Instant;

/// How often something that goes on is spoken of.
const EVERY: Duration = Duration::from_secs(60);

/// What happens again and again is said the first time, and then no more than once a minute, with how
/// often it happened since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rarely {
    last: Option<Instant>,
    /// How often it happened since then.
    unsaid: u64,
    /// When somebody was told that what goes on now had begun.
    begun: Option<Instant>,
}

impl Rarely {
    /// It happened again. Where it is to be said now, how often it happened since it last was.
    pub(crate) fn again(&mut self, now: Instant) -> Option<u64> {
        self.unsaid = self.unsaid.saturating_add(1);
        if self.last.is_some_and(|last| now.duration_since(last) < EVERY) {
            return None;
        }
        self.last = Some(now);
        self.begun.get_or_insert(now);
        Some(std::mem::take(&mut self.unsaid))
    }

    /// It is over. Where somebody was told that it had begun, how long ago that was; what begins again
    /// within the minute is not said at once either.
    pub(crate) fn over(&mut self, now: Instant) -> Option<Duration> {
        self.begun.take().map(|begun| now.duration_since(begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_word_is_said_at_once_and_the_next_after_a_minute() {
        let (mut rarely, begun) = (Rarely::default(), Instant::now());
        let again = |at: u32| Some((at, rarely.again(begun + at * SECOND)?));
        let said: Vec<_> = (0..130).filter_map(again).collect();
        assert_eq!(said, [(0, 1), (60, 60), (120, 60)]);
    }

    /// Something that comes and goes every second is no reason for more lines, and its end is said only
    /// where its beginning was.
    #[test]
    fn what_comes_and_goes_is_said_once_a_minute() {
        let (mut rarely, begun) = (Rarely::default(), Instant::now());
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for at in 0..70 {
            begins.extend(rarely.again(begun + at * SECOND).map(|_| at));
            ends.extend(rarely.over(begun + at * SECOND).map(|_| at));
        }
        assert_eq!((begins, ends), (vec![0, 60], vec![0, 60]));
    }
}
