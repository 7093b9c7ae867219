//! What operators ask of a store about the keys of events.

use async_trait::async_trait;
use sendoff_core::order::{KeyFate, KeySeen, KeyStanding};
use sendoff_core::{AuditNote, EventId, Timestamp};

use super::StoreError;

/// Keys that stand still: seen, explained, and let go on by people.
///
/// A dead event parks its key where [that](sendoff_core::order::AfterDead) is wanted. Requeueing or
/// discarding it is what [letters](super::LetterStore) are for; here a key goes on without it.
///
/// A store that keeps no order takes the defaults: no key is ever parked.
#[async_trait]
pub trait ParkStore: Send + Sync + 'static {
    /// Parked keys, in the order of their bytes, as they stand; one that went on since it was found is among
    /// them.
    async fn parked_keys(&self, page: &KeyPage<'_>) -> Result<Vec<KeyStanding>, StoreError> {
        let _ = page;
        Ok(Vec::new())
    }

    /// How many keys are parked, counted up to so many. Cheap: it is asked again and again.
    async fn count_parked(&self, most: usize) -> Result<u64, StoreError> {
        let _ = most;
        Ok(0)
    }

    /// How a key stands, also one that nobody ever wrote. Locks nothing.
    async fn key_standing(&self, key: &str) -> Result<KeyStanding, StoreError> {
        Ok(unknown(key))
    }

    /// Ends the parking of a key: its other events are delivered from now on, and the dead one stays dead.
    /// Requeued later, it comes after whatever overtook it, as one that was
    /// [skipped](sendoff_core::order::AfterDead::Skip).
    ///
    /// Writes that into the audit in the same transaction, which is durable when it is answered, as a
    /// [resumption](sendoff_core::AuditAction::Resume) of [this subject](sendoff_core::order::key_subject),
    /// with the dead event. Never waits for an entry that somebody has locked (I11). Wakes nodes as a
    /// requeued letter does.
    async fn resume_key(&self, resume: &ResumeKey<'_>) -> Result<KeyFate, StoreError> {
        let _ = resume;
        Ok(KeyFate::NotParked)
    }
}

/// A part of the parked keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyPage<'a> {
    /// Those after this one.
    pub after: Option<&'a str>,
    /// At most so many.
    pub limit: usize,
}

/// A key that is to go on.
#[derive(Debug, Clone, Copy)]
pub struct ResumeKey<'a> {
    /// Which.
    pub key: &'a str,
    /// Only if this event parks it; whatever does, if none is named.
    pub event: Option<EventId>,
    /// Who lets it, and why.
    pub note: &'a AuditNote,
}

fn unknown(key: &str) -> KeyStanding {
    let key = key.to_owned();
    let seen = KeySeen { key, entry: None, letter: None, events: 0, first: None };
    KeyStanding::of(seen, Timestamp::from_micros(0))
}
