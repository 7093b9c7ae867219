//! Which ways to a queue there were.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use super::encode::Outgoing;

/// Ways that are remembered. Who has more has keys that are made of ids; the first of them stand for all.
const KNOWN: usize = 4_096;

/// Exchanges and keys, of which a queue took an event since the sink started: that none does any more is the target's
/// trouble, and somebody mends it.
#[derive(Debug, Default)]
pub(super) struct Routes {
    hasher: RandomState,
    known: Mutex<HashSet<u64>>,
}

impl Routes {
    /// A queue took this.
    pub(super) fn learn(&self, event: &Outgoing) {
        let route = self.of(event);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < KNOWN {
            known.insert(route);
        }
    }

    /// Whether a queue took others of this way.
    pub(super) fn knows(&self, event: &Outgoing) -> bool {
        let route = self.of(event);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&route)
    }

    fn of(&self, event: &Outgoing) -> u64 {
        self.hasher.hash_one((event.exchange.as_str(), event.routing_key.as_str()))
    }
}
