//! What the engine asks of a store to keep order within a key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::EventId;
use sendoff_core::order::{Ending, KeyToken};

use super::{Claimed, Except, Held, Outcome, SettleStore, StoreError, Suspects};

/// Order within a key: keys are held, and their rows are not written until they are settled.
///
/// A row with an ordering key that nobody delivers from memory and that has no delay is *in line*: its due
/// time is [`IN_LINE`](sendoff_core::order::IN_LINE), which no claim of due rows comes near. Keys that
/// somebody holds, that wait for a time, or that are parked behind a dead event have an *entry*; every
/// other key is found by a *walk* over the rows in line. Writers never touch entries.
///
/// Beside these statements the others know keys too: a
/// [settlement](SettleStore::settle) of a row with a key that was held by itself puts it in line where it is
/// released, parks its key where it is dead and that [parks](sendoff_core::order::AfterDead), and else has
/// the key's entry looked at now, if it waits. A requeued row is in line, and requeueing or discarding the
/// event that parks a key ends that, as somebody does who [lets it go on](super::ParkStore). No purge deletes a dead row that parks a key.
///
/// A store that keeps no order takes the defaults: rows with keys are delivered as all others.
#[async_trait]
pub trait KeyStore: SettleStore {
    /// Whether it does any of this.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Holds keys: first those that have an entry and are due, then what a walk finds.
    ///
    /// An entry is locked (nobody waits for one that somebody else has locked), *then* its key's first live
    /// row is read in a younger snapshot, and [`look`](sendoff_core::order::look) says what follows.
    /// Whatever was settled under an earlier hold is seen that way. A walk reads rows in line above a
    /// number and makes an entry, held, for each key that has none and whose first row among these is not
    /// left out.
    async fn take_keys(&self, take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
        let _ = take;
        Ok(TakenKeys::default())
    }

    /// The events of keys that are held, each from its first live one on, in order, up to the first that is
    /// not in line; none of a key that is parked: a walk holds a key without looking at what comes before the row
    /// that it found, which may have died since. Locks nothing, and is one look.
    async fn runs(&self, wanted: &RunsWanted<'_>) -> Result<Vec<KeyRun>, StoreError> {
        let _ = wanted;
        Ok(Vec::new())
    }

    /// Carries out what became of events whose keys are held, and of the keys, each whole or not at all, and
    /// says of which. One that is neither applied nor busy was fenced: its token is not the entry's.
    /// A row that is in line no more, or gone, is passed over. Losses of the key are forgotten when an event
    /// of it is over. Never waits for a row that somebody has
    /// locked (I11): its key is busy then, and nothing about it is changed.
    async fn settle_runs(&self, owner: &str, ends: &[RunEnd]) -> Result<SettledRuns, StoreError> {
        let _ = (owner, ends);
        Ok(SettledRuns::default())
    }

    /// Holds keys until `now + hold`, and says which are still held. Their tokens stay.
    async fn extend_keys(&self, extend: &ExtendKeys<'_>) -> Result<ExtendedKeys, StoreError> {
        let _ = extend;
        Ok(ExtendedKeys::default())
    }

    /// Which of these rows exist, committed, pending and still held by that very token, and what lies below
    /// them in their keys; by their numbers.
    async fn confirm_keys(&self, holds: &[Held]) -> Result<Vec<Confirmed>, StoreError> {
        let _ = holds;
        Ok(Vec::new())
    }

    /// Takes rows in line out of the way of walks: those in this window that are older than `age` and whose
    /// key has an entry that is parked, or has not moved for as long. Answers how many. A row whose entry is
    /// gone meanwhile stays in line.
    async fn shelve(&self, window: Window, age: Duration) -> Result<u64, StoreError> {
        let _ = (window, age);
        Ok(0)
    }
}

/// Which keys to hold on to.
#[derive(Debug, Clone, Copy)]
pub struct ExtendKeys<'a> {
    /// Who holds them.
    pub owner: &'a str,
    /// They, with what they are held by.
    pub keys: &'a [HeldKey],
    /// For how long, from now.
    pub hold: Duration,
}

/// Which keys to take.
#[derive(Debug, Clone, Copy)]
pub struct TakeKeys<'a> {
    /// Who will hold them.
    pub owner: &'a str,
    /// At most so many.
    pub limit: usize,
    /// At most so many events of each are run with this hold.
    pub run: u32,
    /// How long the hold lasts without an extension.
    pub hold: Duration,
    /// None whose first event is of these.
    pub except: Except<'a>,
    /// Whether suspects, or all others.
    pub suspects: Suspects,
    /// Where to walk, if fewer have entries that are due.
    pub walk: Option<WalkFrom>,
}

/// A part of the rows in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkFrom {
    /// Above this number.
    pub after: i64,
    /// At most so many.
    pub rows: usize,
}

/// A part of the rows in line that was walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Above this number.
    pub after: i64,
    /// Up to this one.
    pub last: i64,
}

/// Keys that are held from now on.
#[derive(Debug, Clone, Default)]
pub struct TakenKeys {
    /// They.
    pub keys: Vec<TakenKey>,
    /// When the first of those is due, from now, that could not be taken.
    pub next: Option<Duration>,
    /// How many entries could not be taken.
    pub put_off: usize,
    /// What was walked over, where that was asked for and there was room.
    pub walked: Option<Walked>,
}

/// How far a walk came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    /// The last number, if there was any row.
    pub last: Option<i64>,
    /// How many rows were seen.
    pub rows: usize,
    /// How many of them were of keys that had an entry already.
    pub listed: usize,
    /// Whether there are no more after these.
    pub end: bool,
}

/// A key that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenKey {
    /// The key.
    pub key: Arc<str>,
    /// The proof.
    pub token: KeyToken,
    /// The most events to run with it.
    pub run: u32,
    /// Whether its first event was lost with its last holder, which is counted already.
    pub lost: bool,
}

/// The events to read.
#[derive(Debug, Clone, Copy)]
pub struct RunsWanted<'a> {
    /// Of these keys, each up to its [`run`](TakenKey::run).
    pub keys: &'a [TakenKey],
    /// At most so many bytes of payloads and headers in all, decided by the database before anything is
    /// sent; but always the first event.
    pub bytes: usize,
}

/// The events of a key.
#[derive(Debug)]
pub struct KeyRun {
    /// The key.
    pub key: Arc<str>,
    /// From its first live one on; none where there is none in line, or no room for it.
    pub rows: Vec<Claimed>,
    /// Whether these are all that it has.
    pub whole: bool,
}

/// A key, and the proof that it is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldKey {
    /// The key.
    pub key: Arc<str>,
    /// The proof.
    pub token: KeyToken,
}

/// What became of events of one key, and of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// The key, and the proof that it is held.
    pub held: HeldKey,
    /// The events that are over, in order.
    pub rows: Vec<(EventId, Outcome)>,
    /// What becomes of the key. A dead event that [parks](sendoff_core::order::AfterDead) it comes before
    /// this.
    pub ending: Ending,
}

/// What became of a batch of ends. One that is in neither list was fenced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettledRuns {
    /// Carried out.
    pub applied: Vec<Arc<str>>,
    /// Not decided: somebody else has the entry or one of the rows locked. Ask again.
    pub busy: Vec<Arc<str>>,
}

/// What became of a batch of extensions. One that is in neither list was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtendedKeys {
    /// Held for longer.
    pub held: Vec<Arc<str>>,
    /// Not decided: somebody else has the entry locked. Ask again.
    pub busy: Vec<Arc<str>>,
}

/// A row that was born held, and what lies below it in its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed {
    /// Its event.
    pub id: EventId,
    /// Its number.
    pub seq: i64,
    /// The live events of its key below it: all of them, or one more than
    /// [`HOT_CHAIN`](sendoff_core::order::HOT_CHAIN).
    pub below: Vec<EventId>,
    /// Whether its key is parked.
    pub parked: bool,
}
