//! Order within a key: what is decided about keys and their events.
//!
//! A key, not a row, is what a node holds: a cold event with an ordering key is *in line*, and whoever
//! holds its key's entry runs the key's events one after the other and settles them by the key's token.
//! Nothing here needs a clock to be right: holds only prevent duplicates.

mod chain;
mod ending;
mod look;
mod standing;

use crate::timestamp::Timestamp;

pub use chain::{Chain, HOT_CHAIN, Offer};
pub use ending::{Ending, RunSoFar};
pub use look::{Head, KeyEntry, Look, TakeTerms, look};
pub use standing::{
    EntrySeen, FirstEvent, FirstSeen, KeyFate, KeySeen, KeyStanding, KeyState, Parking,
    ParkingLetter, check_key, key_subject,
};

/// The due time of a row that is in line: only whoever holds its key's entry may deliver it. No time, but a
/// constant far ahead (9998-01-01), so that no claim of due rows comes near it.
pub const IN_LINE: Timestamp = Timestamp::from_micros(253_339_228_800_000_000);

/// The due time of a row that is in line behind a key that waits, and that no walk needs to see
/// (9999-01-01). Such a key always has an entry.
pub const SHELVED: Timestamp = Timestamp::from_micros(253_370_764_800_000_000);

/// Proof of a hold on one key, together with its holder's name: when it was taken, as the database stamped
/// it. An extension leaves it as it is, so the lost reply to one costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyToken(Timestamp);

impl KeyToken {
    /// The token of a key taken then.
    pub const fn new(taken_at: Timestamp) -> Self {
        Self(taken_at)
    }

    /// When it was taken.
    pub const fn taken_at(self) -> Timestamp {
        self.0
    }
}

/// What follows for a key when one of its events is dead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum AfterDead {
    /// The key is parked: its later events wait until somebody requeues or discards the dead one, or lets the
    /// key go on without it.
    #[default]
    Park,
    /// Its later events go on; a dead one that is requeued comes after whatever overtook it.
    Skip,
}

/// Whether a row is in line, shelved or not: its due time is no time.
pub fn is_in_line(due_at: Timestamp) -> bool {
    due_at >= IN_LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_dates_that_the_tables_say() {
        assert_eq!(IN_LINE.to_string(), "9998-01-01T00:00:00.000000Z");
        assert_eq!(SHELVED.to_string(), "9999-01-01T00:00:00.000000Z");
        assert!(is_in_line(IN_LINE) && is_in_line(SHELVED));
        assert!(!is_in_line(Timestamp::now().saturating_add(crate::limits::DELAY)));
    }
}
