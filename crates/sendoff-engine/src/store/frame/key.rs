//! How keys stand. Every statement that reads it has its columns in this order.
//!
//! As with letters, what cannot be read is shown as such.

use sendoff_core::order::{EntrySeen, FirstSeen, KeyFate, KeySeen, KeyStanding, ParkingLetter};
use sendoff_core::{EventId, Undecodable};

use super::letter::{UNREADABLE_TIME, shown, time};
use super::row::{Cells, Column};

const NOW: Column = Column::new(0, "now");
/// Of its entry.
const DUE_AT: Column = Column::new(1, "due_at");
const SINCE: Column = Column::new(2, "since");
const LOCKED_BY: Column = Column::new(3, "locked_by");
const PARKED_BY: Column = Column::new(4, "parked_by");
/// Of the dead event that it waits for.
const LETTER_TYPE: Column = Column::new(5, "event_type");
const LETTER_ATTEMPTS: Column = Column::new(6, "attempts");
const DIED_AT: Column = Column::new(7, "done_at");
const LETTER_ERROR: Column = Column::new(8, "last_error");
/// Of its live events.
const EVENTS: Column = Column::new(9, "events");
const FIRST: Column = Column::new(10, "event_id");
const FIRST_TYPE: Column = Column::new(11, "event_type");
const FIRST_CREATED_AT: Column = Column::new(12, "created_at");
const FIRST_DUE_AT: Column = Column::new(13, "due_at");
const FIRST_LOCKED_BY: Column = Column::new(14, "locked_by");
const FIRST_ATTEMPTS: Column = Column::new(15, "attempts");
const FIRST_ERROR: Column = Column::new(16, "last_error");

/// How a key stands, of a row.
pub fn standing(key: &str, row: &mut impl Cells) -> Result<KeyStanding, Undecodable> {
    let now = row.time(NOW)?.ok_or(NOW.absent())?;
    let entry = match time(row, DUE_AT) {
        None => None,
        Some(due_at) => Some(EntrySeen {
            due_at,
            since: time(row, SINCE).unwrap_or(UNREADABLE_TIME),
            locked_by: shown(row, LOCKED_BY),
            parked_by: row.id(PARKED_BY)?,
        }),
    };
    let letter = match shown(row, LETTER_TYPE) {
        None => None,
        Some(event_type) => {
            let (attempts, last_error) = (row.count(LETTER_ATTEMPTS)?, shown(row, LETTER_ERROR));
            let died_at = time(row, DIED_AT).unwrap_or(UNREADABLE_TIME);
            Some((ParkingLetter { event_type, attempts, last_error }, died_at))
        }
    };
    let first = match row.id(FIRST)? {
        None => None,
        Some(id) => Some(FirstSeen {
            id,
            event_type: shown(row, FIRST_TYPE).unwrap_or_default(),
            created_at: time(row, FIRST_CREATED_AT).unwrap_or(UNREADABLE_TIME),
            due_at: time(row, FIRST_DUE_AT).unwrap_or(UNREADABLE_TIME),
            locked_by: shown(row, FIRST_LOCKED_BY),
            attempts: row.count(FIRST_ATTEMPTS)?,
            last_error: shown(row, FIRST_ERROR),
        }),
    };
    let events = u64::from(row.count(EVENTS)?);
    Ok(KeyStanding::of(KeySeen { key: key.to_owned(), entry, letter, events, first }, now))
}

/// What became of a key that was to go on: which event parked it until then, if it was done, and else which
/// one parks it; `asked` is the one that was named.
pub fn fate(done: Option<EventId>, parked: Option<EventId>, asked: Option<EventId>) -> KeyFate {
    match (done, parked) {
        (Some(event), _) => KeyFate::Resumed { event },
        (None, None) => KeyFate::NotParked,
        (None, Some(event)) if asked.is_none_or(|asked| asked == event) => KeyFate::Busy,
        (None, Some(event)) => KeyFate::ParkedBy { event },
    }
}
