//! Which keys an append and a decision lock, so that those that exclude one another cannot run at
//! once.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::fact::Fact;
use super::query::{Item, Query};
use crate::limits;

/// How a key is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Beside others who share it.
    Shared,
    /// Alone.
    Exclusive,
}

/// One key and how it is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lock {
    /// What stands for an anchor: 32 bits of a hash, so two anchors may have the same.
    pub key: i32,
    /// How.
    pub mode: Mode,
}

/// One of a fixed number of things to lock, and how; see [`Locks::slots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Which. Several anchors may have the same.
    pub number: u16,
    /// How.
    pub mode: Mode,
}

/// The key that everybody locks: shared, or alone where no smaller anchor will do.
const JOURNAL: i32 = 0;

/// What an append or a decision locks, so that two that exclude one another meet.
///
/// An append *shares* every tag and type of its facts, and the journal. Its condition, like a decision
/// that is being read, takes *alone* what every fact it could mean must share: of each item one tag,
/// else its types, else the journal. So whoever appends a fact that a condition means, and whoever
/// has that condition, have a key in common that one of them wants alone; and appends of which
/// neither could disturb the other only share.
///
/// Each key is there once, in its strongest mode, and they ascend: taken in this order they cannot
/// deadlock. A server's table of locks is finite, so beyond a bound the whole journal is locked
/// alone instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locks(Vec<Lock>);

impl Locks {
    /// Those of an append.
    pub fn of_append(facts: &[Fact], condition: Option<&Query>) -> Self {
        let mut keys = Keys::new();
        if let Some(query) = condition {
            keys.exclude(query);
        }
        'sharing: for fact in facts {
            keys.add(type_key(fact.event().event_type()), Mode::Shared);
            for tag in fact.tags() {
                keys.add(tag_key(tag.as_str()), Mode::Shared);
                if keys.are_too_many() {
                    break 'sharing;
                }
            }
        }
        keys.into_locks()
    }

    /// Those of a decision that is about to be read.
    pub fn of_decision(query: &Query) -> Self {
        let mut keys = Keys::new();
        keys.exclude(query);
        keys.into_locks()
    }

    /// The same where there is a fixed number of things to lock, at least two, instead of a key each:
    /// rows of a table. Each is there once, in its strongest mode, and they ascend; the journal has
    /// the first to itself.
    pub fn slots(&self, count: u16) -> Vec<Slot> {
        let others = u32::from(count.max(2)) - 1;
        let mut slots = BTreeMap::new();
        for lock in self {
            let number = match lock.key {
                JOURNAL => 0,
                // Below `count`.
                key => u16::try_from(1 + key.cast_unsigned() % others).unwrap_or(u16::MAX),
            };
            let held = slots.entry(number).or_insert(lock.mode);
            *held = lock.mode.max(*held);
        }
        slots.into_iter().map(|(number, mode)| Slot { number, mode }).collect()
    }

    /// In the order they must be taken in.
    pub fn iter(&self) -> std::slice::Iter<'_, Lock> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Locks {
    type Item = &'a Lock;
    type IntoIter = std::slice::Iter<'a, Lock>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Keys with their strongest mode.
struct Keys(BTreeMap<i32, Mode>);

impl Keys {
    /// Everybody shares the journal: whoever has it alone has everything.
    fn new() -> Self {
        Self(BTreeMap::from([(JOURNAL, Mode::Shared)]))
    }

    fn add(&mut self, key: i32, mode: Mode) {
        let held = self.0.entry(key).or_insert(mode);
        *held = mode.max(*held);
    }

    fn exclude(&mut self, query: &Query) {
        if query.items().is_empty() {
            self.add(JOURNAL, Mode::Exclusive);
        }
        for item in query.items() {
            self.exclude_item(item);
        }
    }

    fn exclude_item(&mut self, item: &Item) {
        if let Some(tag) = item.tags().next() {
            // One is enough: a fact that is meant has all of them.
            self.add(tag_key(tag.as_str()), Mode::Exclusive);
        } else if item.types().len() > 0 {
            item.types().for_each(|event_type| self.add(type_key(event_type), Mode::Exclusive));
        } else {
            self.add(JOURNAL, Mode::Exclusive);
        }
    }

    fn are_too_many(&self) -> bool {
        self.0.len() > limits::JOURNAL_LOCKS
    }

    fn into_locks(self) -> Locks {
        if self.are_too_many() || self.0.get(&JOURNAL) == Some(&Mode::Exclusive) {
            return Locks(vec![Lock { key: JOURNAL, mode: Mode::Exclusive }]);
        }
        Locks(self.0.into_iter().map(|(key, mode)| Lock { key, mode }).collect())
    }
}

fn tag_key(tag: &str) -> i32 {
    hash(b'=', tag)
}

fn type_key(event_type: &str) -> i32 {
    hash(b':', event_type)
}

/// The first four bytes of SHA-256, which every database can compute as well.
fn hash(kind: u8, text: &str) -> i32 {
    let digest = Sha256::new().chain_update([kind]).chain_update(text).finalize();
    i32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}
