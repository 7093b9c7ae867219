//! How a key stands, as an operator sees it.

use std::time::Duration;

use super::is_in_line;
use crate::id::EventId;
use crate::invalid::InvalidEvent;
use crate::letter::LetterCount;
use crate::timestamp::Timestamp;
use crate::{limits, name};

/// How a key stands: what it waits for, and what waits in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyStanding {
    /// The key.
    pub key: String,
    /// What it waits for.
    pub state: KeyState,
    /// How many of its events are owed a delivery, counted up to [a thousand](limits::KEY_EVENTS).
    pub events: LetterCount,
    /// The first of them.
    pub first: Option<FirstEvent>,
}

/// What a key waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// For somebody who decides what becomes of a dead event.
    Parked(Parking),
    /// For the end of what somebody has in hand.
    Held {
        /// Who holds it, or its first event.
        by: String,
        /// Until when, unless that is extended.
        until: Timestamp,
    },
    /// For a time: its first event is tried again then, or is delayed.
    Waiting {
        /// Which.
        until: Timestamp,
    },
    /// For a node that takes it: its events are in line.
    InLine,
    /// For nothing: none of its events is owed a delivery, or it is not known.
    Idle,
}

/// Why a key is parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parking {
    /// The dead event that it waits for.
    pub event: EventId,
    /// Since when: when that event died.
    pub since: Timestamp,
    /// That event, unless its row is gone.
    pub letter: Option<ParkingLetter>,
}

/// The dead event that parks a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkingLetter {
    /// Its type.
    pub event_type: String,
    /// Attempts that were counted.
    pub attempts: u32,
    /// Why it is dead.
    pub last_error: Option<String>,
}

/// The first event of a key that is owed a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstEvent {
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: String,
    /// When it was written.
    pub created_at: Timestamp,
    /// How long ago that was.
    pub age: Duration,
    /// Attempts that were counted.
    pub attempts: u32,
    /// Why the last of them failed.
    pub last_error: Option<String>,
}

/// What became of a key that was to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFate {
    /// It goes on, and this dead event, which parked it, stays where it is.
    Resumed {
        /// The dead event.
        event: EventId,
    },
    /// It is not parked.
    NotParked,
    /// Another event parks it than the one that was named; nothing was changed.
    ParkedBy {
        /// The dead event that parks it now.
        event: EventId,
    },
    /// Somebody has it locked; nothing was changed.
    Busy,
}

/// What a store found of a key, at one moment.
#[derive(Debug, Clone)]
pub struct KeySeen {
    /// The key.
    pub key: String,
    /// Its entry, where it has one.
    pub entry: Option<EntrySeen>,
    /// The dead event that its entry names, and when it died.
    pub letter: Option<(ParkingLetter, Timestamp)>,
    /// Events that are owed a delivery; one more than are counted where there are more.
    pub events: u64,
    /// The first of them.
    pub first: Option<FirstSeen>,
}

/// The entry of a key.
#[derive(Debug, Clone)]
pub struct EntrySeen {
    /// When to look at it; while it is held, until when.
    pub due_at: Timestamp,
    /// When it moved last.
    pub since: Timestamp,
    /// Who holds it.
    pub locked_by: Option<String>,
    /// The dead event that it waits for.
    pub parked_by: Option<EventId>,
}

/// The first live row of a key.
#[derive(Debug, Clone)]
pub struct FirstSeen {
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: String,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it is due, or whether it is in line.
    pub due_at: Timestamp,
    /// Who holds it by itself.
    pub locked_by: Option<String>,
    /// Attempts that were counted.
    pub attempts: u32,
    /// Why the last of them failed.
    pub last_error: Option<String>,
}

impl KeyStanding {
    /// How a key stands of which this was found.
    pub fn of(seen: KeySeen, now: Timestamp) -> Self {
        let state = state(&seen, now);
        let first = seen.first.map(|first| FirstEvent {
            id: first.id,
            event_type: first.event_type,
            created_at: first.created_at,
            age: now.since(first.created_at),
            attempts: first.attempts,
            last_error: first.last_error,
        });
        let events = LetterCount::found(seen.events, limits::KEY_EVENTS as u64);
        Self { key: seen.key, state, events, first }
    }

    /// Why it is parked, where it is.
    pub const fn parking(&self) -> Option<&Parking> {
        match &self.state {
            KeyState::Parked(parking) => Some(parking),
            _ => None,
        }
    }
}

impl KeyState {
    /// A word for it, for people and programs; it does not change.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Parked(_) => "parked",
            Self::Held { .. } => "held",
            Self::Waiting { .. } => "waiting",
            Self::InLine => "in_line",
            Self::Idle => "idle",
        }
    }
}

fn state(seen: &KeySeen, now: Timestamp) -> KeyState {
    if let Some(entry) = &seen.entry {
        if let Some(event) = entry.parked_by {
            // The event died in the transaction that parked the key; `since` may be younger.
            let (letter, died_at) = seen.letter.clone().unzip();
            return KeyState::Parked(Parking {
                event,
                since: died_at.unwrap_or(entry.since),
                letter,
            });
        }
        if let Some(by) = entry.locked_by.clone().filter(|_| entry.due_at > now) {
            return KeyState::Held { by, until: entry.due_at };
        }
    }
    let Some(first) = &seen.first else { return KeyState::Idle };
    // By itself: held for the hot lane, delayed, or tried again. What is in line waits for its key.
    if !is_in_line(first.due_at) && first.due_at > now {
        let until = first.due_at;
        return match first.locked_by.clone() {
            Some(by) => KeyState::Held { by, until },
            None => KeyState::Waiting { until },
        };
    }
    match &seen.entry {
        Some(entry) if entry.due_at > now => KeyState::Waiting { until: entry.due_at },
        _ => KeyState::InLine,
    }
}

/// What the audit calls a key that somebody let go on.
pub fn key_subject(key: &str) -> String {
    format!("key:{key}")
}

/// Whether a text can be the key of events.
///
/// # Errors
///
/// Why it cannot: it is empty, too long, or has a character that no key has.
pub fn check_key(key: &str) -> Result<(), InvalidEvent> {
    const FIELD: &str = "ordering_key";
    if key.is_empty() {
        return Err(InvalidEvent::Empty { field: FIELD });
    }
    name::check(FIELD, key, limits::ORDERING_KEY_CHARS)
}

#[cfg(test)]
mod tests {
    use super::super::{IN_LINE, SHELVED};
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn seconds(seconds: u64) -> Timestamp {
        NOW.saturating_add(Duration::from_secs(seconds))
    }

    fn first(due_at: Timestamp, locked_by: Option<&str>) -> FirstSeen {
        FirstSeen {
            id: EventId::generate(),
            event_type: "order.paid".to_owned(),
            created_at: Timestamp::from_micros(0),
            due_at,
            locked_by: locked_by.map(str::to_owned),
            attempts: 1,
            last_error: None,
        }
    }

    fn entry(due_at: Timestamp, locked_by: Option<&str>) -> EntrySeen {
        let locked_by = locked_by.map(str::to_owned);
        EntrySeen { due_at, since: NOW, locked_by, parked_by: None }
    }

    fn seen(entry: Option<EntrySeen>, first: Option<FirstSeen>) -> KeyStanding {
        let events = first.iter().count() as u64;
        let seen = KeySeen { key: "a".to_owned(), entry, letter: None, events, first };
        KeyStanding::of(seen, NOW)
    }

    #[test]
    fn a_key_waits_for_one_thing_at_a_time() {
        let state = |entry, first| seen(entry, first).state;
        assert_eq!(state(None, None), KeyState::Idle);
        assert_eq!(state(Some(entry(NOW, None)), None), KeyState::Idle);
        for in_line in [IN_LINE, SHELVED] {
            let first = || Some(first(in_line, None));
            assert_eq!(state(None, first()), KeyState::InLine);
            assert_eq!(state(Some(entry(NOW, None)), first()), KeyState::InLine);
            // A holder who vanished: anybody may take it.
            assert_eq!(state(Some(entry(NOW, Some("gone"))), first()), KeyState::InLine);
            let until = seconds(5);
            let held = KeyState::Held { by: "node".to_owned(), until };
            assert_eq!(state(Some(entry(until, Some("node"))), first()), held);
            assert_eq!(state(Some(entry(until, None)), first()), KeyState::Waiting { until });
        }
        let until = seconds(7);
        let hot = KeyState::Held { by: "node".to_owned(), until };
        assert_eq!(state(None, Some(first(until, Some("node")))), hot);
        let delayed = Some(first(until, None));
        assert_eq!(state(Some(entry(seconds(1), None)), delayed), KeyState::Waiting { until });
        assert_eq!(state(None, Some(first(NOW, None))), KeyState::InLine);
    }

    #[test]
    fn a_parked_key_names_the_dead_event_and_since_when() {
        let event = EventId::generate();
        let parked = EntrySeen { parked_by: Some(event), ..entry(seconds(9), Some("node")) };
        let standing = seen(Some(parked.clone()), Some(first(IN_LINE, None)));
        let gone = Parking { event, since: NOW, letter: None };
        assert_eq!(standing.parking(), Some(&gone));
        assert_eq!(standing.first.map(|first| first.age), Some(Duration::from_secs(1)));
        let letter = ParkingLetter {
            event_type: "order.placed".to_owned(),
            attempts: 3,
            last_error: Some("no".to_owned()),
        };
        let died_at = Timestamp::from_micros(5);
        let seen = KeySeen {
            key: "a".to_owned(),
            entry: Some(parked),
            letter: Some((letter.clone(), died_at)),
            events: limits::KEY_EVENTS as u64 + 1,
            first: None,
        };
        let standing = KeyStanding::of(seen, NOW);
        let parking = Parking { event, since: died_at, letter: Some(letter) };
        assert_eq!(standing.parking(), Some(&parking));
        assert_eq!(standing.events, LetterCount::AtLeast(limits::KEY_EVENTS as u64));
    }

    #[test]
    fn what_can_be_no_key_is_refused() {
        let limit = limits::ORDERING_KEY_CHARS;
        assert!(check_key("a").is_ok() && check_key(&"ä".repeat(limit)).is_ok());
        for wrong in ["", "a\0", "a\nb", &"ä".repeat(limit + 1)] {
            assert!(check_key(wrong).is_err(), "{wrong:?}");
        }
    }
}
