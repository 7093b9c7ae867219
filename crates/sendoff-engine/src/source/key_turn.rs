use std::time::Duration;

use tokio::time::Instant;

/// When keys are looked for while rows without one keep coming: at once where the last look found some, and else
/// after many times as long as it took, so that events without keys pay next to nothing for it. Where no row comes,
/// keys are looked for each time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeyTurn {
    next_at: Option<Instant>,
}

/// So many times as long as a look in vain took, none is made.
const REST: u32 = 100;
/// Nobody waits longer for it.
const LONGEST: Duration = Duration::from_millis(100);

impl KeyTurn {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_at.is_none_or(|at| now >= at)
    }

    /// A look that began then is over.
    pub(crate) fn looked(&mut self, began: Instant, now: Instant, found: bool) {
        let took = now.saturating_duration_since(began);
        self.next_at = (!found).then(|| now + LONGEST.min(REST * took));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_in_vain_is_followed_by_a_rest_and_one_that_found_something_by_the_next() {
        const MILLI: Duration = Duration::from_millis(1);
        let (mut turn, start) = (KeyTurn::default(), Instant::now());
        assert!(turn.is_due(start));
        turn.looked(start, start + MILLI, false);
        assert!(!turn.is_due(start + 100 * MILLI) && turn.is_due(start + 101 * MILLI));
        turn.looked(start, start + MILLI / 10, false);
        assert!(!turn.is_due(start + 10 * MILLI) && turn.is_due(start + 11 * MILLI));
        turn.looked(start, start + 50 * MILLI, false);
        assert!(!turn.is_due(start + 149 * MILLI) && turn.is_due(start + 150 * MILLI));
        turn.looked(start, start + 50 * MILLI, true);
        assert!(turn.is_due(start + 50 * MILLI));
    }
}
