use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use sendoff_core::Event;

/// A short stand-in for everything a handler sees of an event, so that a history of millions keeps
/// no payloads. Two processes agree on it if they were built with the same standard library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl Digest {
    /// The digest of an event: payload, headers and every name.
    pub fn of(event: &Event) -> Self {
        let stored = event.as_ref();
        let mut hasher = DefaultHasher::new();
        stored.event_type.hash(&mut hasher);
        stored.aggregate_type.hash(&mut hasher);
        stored.aggregate_id.hash(&mut hasher);
        stored.tenant_id.hash(&mut hasher);
        stored.ordering_key.hash(&mut hasher);
        for header in stored.headers.iter() {
            header.hash(&mut hasher);
        }
        stored.content_type.hash(&mut hasher);
        stored.payload.hash(&mut hasher);
        stored.occurred_at.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// The digest with this number.
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The digest as a number, to carry it from one process to another.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
