use std::time::Duration;

use sendoff_core::limits;

use crate::store::Claimed;
use crate::weight::weight;

/// How much to ask the database for at once: half as much after an answer that did not come in time,
/// and twice as much again when answers come quickly.
///
/// What cannot be transferred within the time limit would otherwise be asked for unchanged for ever.
#[derive(Debug)]
pub(crate) struct Appetite {
    most: Portion,
    now: Portion,
}

/// So many rows, and so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Portion {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// The largest event that may be written.
const LARGEST: usize = limits::PAYLOAD_BYTES + limits::HEADER_BYTES;

/// An answer within this part of its time limit would have come in time if it were twice as large,
/// with as much to spare.
const QUICK: u32 = 4;

impl Appetite {
    /// Asks for `most`, until that turns out to be too much.
    pub(crate) fn new(most: Portion) -> Self {
        Self { most, now: most }
    }

    pub(crate) fn portion(&self) -> Portion {
        self.now
    }

    /// No answer came in time.
    pub(crate) fn was_too_much(&mut self, asked: Portion) {
        let half = Portion { rows: (asked.rows / 2).max(1), bytes: (asked.bytes / 2).max(1) };
        // Of two that asked at once, the second halves nothing a second time.
        self.now =
            Portion { rows: self.now.rows.min(half.rows), bytes: self.now.bytes.min(half.bytes) };
    }

    /// A full answer came after `took` of the `limit` it had. One that is not full tells nothing.
    pub(crate) fn was_answered(&mut self, took: Duration, limit: Duration) {
        if took <= limit / QUICK {
            let Portion { rows, bytes } = self.now;
            self.now = Portion {
                rows: rows.saturating_mul(2).min(self.most.rows),
                bytes: bytes.saturating_mul(2).min(self.most.bytes),
            };
        }
    }
}

impl Portion {
    /// One row, however large.
    pub(crate) const ONE: Self = Self { rows: 1, bytes: usize::MAX };

    /// Whether another one fits into it.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.rows >= other.rows && self.bytes >= other.bytes
    }

    /// Whether an answer may have left something out: it has as many rows as were asked for, or one
    /// more might not have fitted.
    pub(crate) fn is_filled_by(self, rows: &[Claimed]) -> bool {
        let left = self.without(rows);
        !rows.is_empty() && (left.rows == 0 || left.bytes < LARGEST)
    }

    /// What is left of it beside these rows.
    pub(crate) fn without(self, rows: &[Claimed]) -> Self {
        let events = rows.iter().filter_map(|row| row.event.as_ref().ok());
        Self {
            rows: self.rows.saturating_sub(rows.len()),
            bytes: self.bytes.saturating_sub(events.map(weight).sum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MOST: Portion = Portion { rows: 200, bytes: 1 << 20 };

    #[test]
    fn it_halves_down_to_one_row_and_grows_again() {
        let mut appetite = Appetite::new(MOST);
        appetite.was_too_much(MOST);
        assert_eq!(appetite.portion(), Portion { rows: 100, bytes: 1 << 19 });
        appetite.was_too_much(MOST);
        assert_eq!(appetite.portion().rows, 100, "it was asked for before the first was known");
        for _ in 0..30 {
            appetite.was_too_much(appetite.portion());
        }
        assert_eq!(appetite.portion(), Portion { rows: 1, bytes: 1 });
        appetite.was_answered(SECOND, SECOND);
        assert_eq!(appetite.portion().rows, 1, "twice as much would be too much again");
        for _ in 0..30 {
            appetite.was_answered(SECOND / 4, SECOND);
        }
        assert_eq!(appetite.portion(), MOST);
    }
}
