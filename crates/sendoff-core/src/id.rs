//! Ids of events: UUIDv7 made in strictly rising order, read as UUID or ULID.

use std::fmt;
use std::str::FromStr;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use ulid::Ulid;
use uuid::{ContextV7, Timestamp as UuidTime, Uuid};

/// The 128-bit identity of an event, and what receivers deduplicate by.
///
/// Generated ids are UUIDv7: ordered by time, and strictly increasing within a process even when
/// the clock steps back. Ids from elsewhere may be any 128 bits, written as UUID or ULID text.
///
/// ```
/// use sendoff_core::EventId;
///
/// let id = EventId::generate();
/// assert_eq!(id.to_string().parse::<EventId>().unwrap(), id);        // UUID text
/// assert_eq!(id.to_ulid_text().parse::<EventId>().unwrap(), id);     // ULID text
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct EventId(Uuid);

impl EventId {
    /// A new id from this process's source.
    pub fn generate() -> Self {
        static SOURCE: LazyLock<IdSource> = LazyLock::new(IdSource::new);
        SOURCE.next_at(SystemTime::now())
    }

    /// The id with these bytes, most significant first.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The id's bytes, most significant first.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id in ULID's 26 characters.
    pub fn to_ulid_text(self) -> String {
        Ulid(self.0.as_u128()).to_string()
    }
}

impl From<Uuid> for EventId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl From<EventId> for Uuid {
    fn from(id: EventId) -> Self {
        id.0
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for EventId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl FromStr for EventId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        // ULID text is the only form of 26 characters; the UUID forms have 32 or more.
        let parsed = if text.len() == ulid::ULID_LEN {
            Ulid::from_string(text).ok().map(|ulid| Uuid::from_u128(ulid.0))
        } else {
            Uuid::parse_str(text).ok()
        };
        parsed.map(Self).ok_or(InvalidId)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is neither a UUID nor a ULID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event id is a UUID (36 or 32 characters) or a ULID (26 characters)")]
pub struct InvalidId;

/// Makes ids that only ever increase.
pub struct IdSource(Mutex<ContextV7>);

impl IdSource {
    /// A source of its own; [`EventId::generate`] shares one in the process.
    pub fn new() -> Self {
        Self(Mutex::new(ContextV7::new()))
    }

    /// The next id for a clock that reads `now`; greater than every earlier one, whatever it reads.
    pub fn next_at(&self, now: SystemTime) -> EventId {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // A panic while counting cannot leave a context that repeats itself.
        let context = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        EventId(Uuid::new_v7(UuidTime::from_unix(&*context, since.as_secs(), since.subsec_nanos())))
    }
}

impl Default for IdSource {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for IdSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdSource")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Holds E1.
    #[test]
    fn ids_increase_even_when_the_clock_steps_back() {
        let source = IdSource::new();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let mut last = source.next_at(now);
        for step in 0..20_000_u64 {
            let back = now - Duration::from_millis(step % 3_600_000);
            let next = source.next_at(back);
            assert!(next > last, "{next} after {last}");
            last = next;
        }
    }

    /// Holds E1.
    #[test]
    fn ids_of_concurrent_threads_never_collide_and_increase_in_each() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| (0..5_000).map(|_| EventId::generate()).collect::<Vec<_>>())
            })
            .collect();
        let mut all = Vec::new();
        for thread in threads {
            let ids = thread.join().unwrap();
            assert!(ids.is_sorted());
            all.extend(ids);
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 20_000);
    }

    /// Holds E1.
    #[test]
    fn uuid_and_ulid_text_both_parse_and_print() {
        let id: EventId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        assert_eq!(id.to_ulid_text(), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(id.to_string(), "01563e3a-b5d3-d676-4c61-efb99302bd5b");
        assert_eq!("01563E3AB5D3D6764C61EFB99302BD5B".parse(), Ok(id));
        for bad in ["", "x", "01ARZ3NDEKTSV4RRFFQ69G5FA!", "01563e3a-b5d3-d676-4c61-efb99302bd5"] {
            assert_eq!(bad.parse::<EventId>(), Err(InvalidId), "{bad:?}");
        }
    }
}
