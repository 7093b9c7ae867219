use sendoff_core::limits;

use crate::appetite::Portion;
use crate::store::Claimed;
use crate::weight::weight;

/// The largest event that may be written.
const LARGEST: usize = limits::PAYLOAD_BYTES + limits::HEADER_BYTES;

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
