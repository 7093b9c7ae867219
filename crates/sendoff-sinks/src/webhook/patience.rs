//! What is known of a receiver that takes nothing: how long it is asked, and whose failure that is.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The longest time between two failures that are of one outage is such a part of the whole patience: of five days, a day.
const GAPS: u32 = 5;
/// And no shorter than this, or than a receiver asked for: whatever waits is tried more often.
const GAP_AT_LEAST: Duration = Duration::from_secs(60);

/// What a receiver did with what it was sent, as far as this process knows.
#[derive(Debug)]
pub(super) struct Patience {
    most: Duration,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    failing: Option<Failing>,
    /// Whether it took one since it was last doubted.
    has_taken: bool,
    /// Until when it asked to be left alone.
    left_alone_until: Option<Instant>,
}

/// It has taken nothing for a while.
#[derive(Debug)]
struct Failing {
    since: Instant,
    /// A failure after this is of something else: nobody knows what it would have done in between.
    goes_on_until: Instant,
}

impl Patience {
    pub(super) fn new(most: Duration) -> Self {
        Self { most, known: Mutex::default() }
    }

    /// It took one.
    pub(super) fn taken(&self) {
        let mut known = self.known();
        (known.failing, known.has_taken) = (None, true);
    }

    /// It asked to be left alone for so long.
    pub(super) fn leave_alone(&self, wait: Duration) {
        let until = Some(Instant::now() + wait);
        let mut known = self.known();
        known.left_alone_until = known.left_alone_until.max(until);
    }

    /// For how long it is to be left alone, if it is.
    pub(super) fn left_alone_for(&self) -> Option<Duration> {
        let left = self.known().left_alone_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// It did not take one, for a reason that may be the event's or its own. Whether it took another since this was last
    /// asked: then it is there, and the event is to blame as far as can be told.
    pub(super) fn is_there(&self) -> bool {
        std::mem::take(&mut self.known().has_taken)
    }

    /// It did not take one, for a reason that is not the event's for certain, and asked for such a wait. Where that has gone on
    /// for too long, for how long; then it begins anew, so that a sink that is resumed has as much time again.
    pub(super) fn not_taken(&self, wait: Duration) -> Option<Duration> {
        let (mut known, now) = (self.known(), Instant::now());
        let going_on = known.failing.take().filter(|failing| now <= failing.goes_on_until);
        let since = going_on.map_or(now, |failing| failing.since);
        let lasted = now.duration_since(since);
        if lasted >= self.most {
            return Some(lasted);
        }
        let gap = (self.most / GAPS).max(GAP_AT_LEAST);
        known.failing = Some(Failing { since, goes_on_until: now + gap + wait });
        None
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A receiver has taken nothing for too long.
#[derive(Debug, thiserror::Error)]
#[error("the receiver has taken no event for {lasted:.0?}, and `webhook.disable_after` is over")]
pub(super) struct Exhausted {
    pub(super) lasted: Duration,
    #[source]
    pub(super) last: sendoff_core::BoxError,
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);

    fn patience() -> Patience {
        Patience::new(5 * DAY)
    }

    /// Fails every hour for so long. When it was said to be too long, if it was.
    async fn fails_for(patience: &Patience, long: Duration) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < long {
            if let Some(lasted) = patience.not_taken(Duration::ZERO) {
                return Some(lasted);
            }
            advance(HOUR).await;
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn one_success_in_five_days_is_enough() {
        let patience = patience();
        for _ in 0..3 {
            assert_eq!(fails_for(&patience, 5 * DAY).await, None);
            patience.taken();
        }
        assert_eq!(fails_for(&patience, 6 * DAY).await, Some(5 * DAY));
        assert_eq!(patience.not_taken(Duration::ZERO), None, "after that it begins anew");
    }

    /// Between two failures that are days apart, nobody knows what the receiver would have done.
    #[tokio::test(start_paused = true)]
    async fn failures_that_are_far_apart_are_no_outage() {
        let patience = patience();
        for _ in 0..10 {
            assert_eq!(patience.not_taken(Duration::ZERO), None);
            advance(DAY + HOUR).await;
        }
        assert_eq!(fails_for(&patience, 5 * DAY).await, None);
        assert!(fails_for(&patience, HOUR).await.is_some());
        // As long apart as that, they are.
        for _ in 0..5 {
            assert_eq!(patience.not_taken(Duration::ZERO), None);
            advance(DAY).await;
        }
        assert_eq!(patience.not_taken(Duration::ZERO), Some(5 * DAY));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_a_receiver_asked_for_is_no_gap() {
        let patience = patience();
        for _ in 0..2 {
            assert_eq!(patience.not_taken(2 * DAY), None);
            advance(3 * DAY).await;
        }
        assert_eq!(patience.not_taken(Duration::ZERO), Some(6 * DAY));
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_is_left_alone_for_as_long_as_it_asked() {
        let patience = patience();
        assert_eq!(patience.left_alone_for(), None);
        patience.leave_alone(2 * HOUR);
        patience.leave_alone(HOUR);
        // One that was under way when it asked.
        patience.taken();
        advance(HOUR).await;
        assert_eq!(patience.left_alone_for(), Some(HOUR));
        advance(HOUR).await;
        assert_eq!(patience.left_alone_for(), None);
    }

    #[test]
    fn a_receiver_is_there_where_it_took_one_since_it_was_last_doubted() {
        let patience = patience();
        assert!(!patience.is_there(), "nothing is known yet");
        patience.taken();
        assert!(patience.is_there() && !patience.is_there());
    }
}
