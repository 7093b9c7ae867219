//! How much to ask a database for next.

use std::time::Duration;

/// Fewer bytes than this are asked for by nobody, however slow the line is. One row always comes.
const LEAST_BYTES: usize = 16 * 1024;

/// An answer within this part of its time limit would have come in time if it were twice as large,
/// with as much to spare.
const EARLY: u32 = 4;

/// How many rows and bytes the next claim or reading may bring: half as many after one that did not come
/// in time, so that it is not repeated unchanged for ever, and more again after those that came early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appetite {
    most: Portion,
    now: Portion,
}

/// Rows and the bytes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Portion {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Appetite {
    /// Asks for so much where nothing speaks against it.
    pub(crate) fn up_to(most: Portion) -> Self {
        let most = Portion { rows: most.rows.max(1), bytes: most.bytes.max(1) };
        Self { most, now: most }
    }

    /// What to ask for.
    pub(crate) fn portion(&self) -> Portion {
        self.now
    }

    /// An answer came in time: this much, within `took` of the `limit` it had.
    pub(crate) fn answered(&mut self, got: Portion, took: Duration, limit: Duration) {
        if got.rows == 0 {
            return;
        }
        if took > limit / 2 {
            self.timed_out(self.now);
        } else if took <= limit / EARLY {
            let twice = self.twice();
            // Only what was made use of says that more would have come in time as well.
            if got.bytes >= self.now.bytes / 2 {
                self.now.bytes = twice.bytes;
            }
            if got.rows >= self.now.rows / 2 {
                self.now.rows = twice.rows;
            }
        }
        // A database may have to look at each row to know its size: not at many more than fit.
        let row = got.bytes.div_ceil(got.rows).max(1);
        let fit = (self.now.bytes / row).saturating_mul(2).saturating_add(2);
        self.now.rows = self.now.rows.min(fit);
    }

    /// All that was asked for came, within `took` of the `limit` it had. Of a database that takes its
    /// time whatever it is asked for, no less is asked: that would only make it slower.
    pub(crate) fn filled(&mut self, took: Duration, limit: Duration) {
        if took <= limit / EARLY {
            self.now = self.twice();
        }
    }

    /// No answer came in time to the one who asked for this.
    pub(crate) fn timed_out(&mut self, asked: Portion) {
        let half = asked.half();
        // Of two that asked at once, the second halves nothing a second time.
        self.now =
            Portion { rows: self.now.rows.min(half.rows), bytes: self.now.bytes.min(half.bytes) };
    }

    fn twice(&self) -> Portion {
        Portion {
            rows: self.now.rows.saturating_mul(2).min(self.most.rows),
            bytes: self.now.bytes.saturating_mul(2).min(self.most.bytes),
        }
    }
}

impl Portion {
    fn half(self) -> Self {
        Self {
            rows: (self.rows / 2).max(1),
            bytes: (self.bytes / 2).max(LEAST_BYTES).min(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(4);
    const MOST: Portion = Portion { rows: 1_000, bytes: 8 << 20 };

    fn portion(rows: usize, bytes: usize) -> Portion {
        Portion { rows, bytes }
    }

    #[test]
    fn what_does_not_come_in_time_is_asked_for_by_halves_and_never_as_nothing() {
        let mut appetite = Appetite::up_to(MOST);
        appetite.timed_out(MOST);
        assert_eq!(appetite.portion(), portion(500, 4 << 20));
        appetite.timed_out(MOST);
        assert_eq!(
            appetite.portion(),
            portion(500, 4 << 20),
            "asked for before the first was known"
        );
        (0..30).for_each(|_| appetite.timed_out(appetite.portion()));
        assert_eq!(appetite.portion(), portion(1, LEAST_BYTES));
        appetite.filled(LIMIT, LIMIT);
        assert_eq!(appetite.portion(), portion(1, LEAST_BYTES), "twice as much would be too much");
        (0..30).for_each(|_| appetite.filled(LIMIT / EARLY, LIMIT));
        assert_eq!(appetite.portion(), MOST);
    }

    #[test]
    fn it_grows_again_by_answers_that_were_early_and_used() {
        let mut appetite = Appetite::up_to(MOST);
        (0..3).for_each(|_| appetite.timed_out(appetite.portion()));
        let Portion { rows, bytes } = appetite.portion();
        appetite.answered(portion(3, 300), Duration::ZERO, LIMIT);
        assert_eq!(appetite.portion(), portion(rows, bytes), "that was all there is");
        appetite.answered(portion(rows, bytes), LIMIT / 3, LIMIT);
        assert_eq!(appetite.portion(), portion(rows, bytes), "in time, and not early");
        appetite.answered(portion(rows, bytes), LIMIT / 8, LIMIT);
        assert_eq!(appetite.portion(), portion(rows * 2, bytes * 2));
        (0..9).for_each(|_| {
            let all = appetite.portion();
            appetite.answered(all, Duration::ZERO, LIMIT);
        });
        assert_eq!(appetite.portion(), MOST);
        appetite.answered(MOST, LIMIT, LIMIT);
        assert_eq!(appetite.portion(), portion(500, 4 << 20), "before one is too late");
    }

    #[test]
    fn rows_that_do_not_fit_are_not_asked_for_in_masses() {
        let mut appetite = Appetite::up_to(MOST);
        appetite.answered(portion(8, 8 << 20), Duration::ZERO, LIMIT);
        assert_eq!(appetite.portion(), portion(18, 8 << 20));
        for _ in 0..7 {
            let rows = appetite.portion().rows;
            appetite.answered(portion(rows, rows * 100), Duration::ZERO, LIMIT);
        }
        assert_eq!(appetite.portion(), MOST, "they are small again");
    }
}
