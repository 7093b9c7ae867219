//! What a store remembers of earlier decisions, so that the next ones need not look for it.
//!
//! Promise: a reading finds the same whatever is remembered. Nothing here has to be so: it is proved
//! whenever it is used, and what is not so costs time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sendoff_core::EventId;
use sendoff_core::journal::Position;

/// How many are remembered, at least of those used last; twice as many at most.
const REMEMBERED: usize = 10_000;

/// Where the books of models were closed last, as far as this process has seen: the fact that closed them,
/// or none if none ever did.
///
/// Looking for that fact costs as much as reading what came later. What begins with a fact that closes is
/// right wherever it begins, and so is what begins with the first fact of all.
pub type Books = Remembered<Option<(Position, EventId)>>;

/// What something is remembered by. Others may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryKey(u64);

impl MemoryKey {
    /// The key of whatever this stands for.
    pub fn of(what: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// What was used lately, and a bounded part of what was used before.
#[derive(Debug)]
pub struct Remembered<V> {
    used: Mutex<Used<V>>,
    /// What `lately` may weigh, and `before`.
    most: usize,
}

#[derive(Debug)]
struct Used<V> {
    lately: HashMap<MemoryKey, Weighed<V>>,
    before: HashMap<MemoryKey, Weighed<V>>,
    /// What `lately` weighs.
    weight: usize,
}

#[derive(Debug, Clone, Copy)]
struct Weighed<V> {
    value: V,
    weight: usize,
}

impl<V> Remembered<V> {
    /// Remembers values that weigh so much together, at least of those used last; twice as much at most.
    pub(super) fn weighing(most: usize) -> Self {
        let used = Used { lately: HashMap::new(), before: HashMap::new(), weight: 0 };
        Self { used: Mutex::new(used), most }
    }

    /// Remembers this, and nothing else by that key.
    pub fn put(&self, key: MemoryKey, value: V) {
        self.put_weighing(key, value, 1);
    }

    /// The same for a value that weighs so much.
    pub(super) fn put_weighing(&self, key: MemoryKey, value: V, weight: usize) {
        self.used().put(key, Weighed { value, weight }, self.most);
    }

    /// What is remembered, which is forgotten.
    pub(super) fn take(&self, key: MemoryKey) -> Option<V> {
        self.used().take(key).map(|taken| taken.value)
    }

    /// Forgets what was wrong.
    pub fn forget(&self, key: MemoryKey) {
        self.used().take(key);
    }

    fn used(&self) -> MutexGuard<'_, Used<V>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Copy> Remembered<V> {
    /// What is remembered.
    pub fn get(&self, key: MemoryKey) -> Option<V> {
        let mut used = self.used();
        if let Some(found) = used.lately.get(&key) {
            return Some(found.value);
        }
        let found = used.before.remove(&key)?;
        used.put(key, found, self.most);
        Some(found.value)
    }
}

impl<V> Used<V> {
    fn put(&mut self, key: MemoryKey, new: Weighed<V>, most: usize) {
        self.take(key);
        if self.weight + new.weight > most {
            self.before = std::mem::take(&mut self.lately);
            self.weight = 0;
        }
        self.weight += new.weight;
        self.lately.insert(key, new);
    }

    fn take(&mut self, key: MemoryKey) -> Option<Weighed<V>> {
        let Some(taken) = self.lately.remove(&key) else { return self.before.remove(&key) };
        self.weight -= taken.weight;
        Some(taken)
    }
}

impl<V> Default for Remembered<V> {
    fn default() -> Self {
        Self::weighing(REMEMBERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_lately_is_remembered_and_never_too_much() {
        let numbers = Remembered::default();
        let often = MemoryKey::of(("often", 0));
        for number in 0..5 * REMEMBERED {
            numbers.put(MemoryKey::of(("once", number)), number);
            if number % 1_000 == 0 {
                numbers.put(often, number);
            }
        }
        let last = 5 * REMEMBERED - 1;
        assert_eq!(numbers.get(MemoryKey::of(("once", last))), Some(last));
        assert!(numbers.get(often).is_some());
        assert_eq!(numbers.get(MemoryKey::of(("once", 0))), None);
        let used = numbers.used();
        assert!(used.lately.len() <= REMEMBERED && used.before.len() <= REMEMBERED);
        drop(used);
        numbers.forget(often);
        assert_eq!(numbers.get(often), None);
    }

    #[test]
    fn what_is_asked_for_is_used() {
        let numbers = Remembered::default();
        let often = MemoryKey::of("often");
        numbers.put(often, 0);
        for number in 0..5 * REMEMBERED {
            numbers.put(MemoryKey::of(number), number);
            if number % 1_000 == 0 {
                assert_eq!(numbers.get(often), Some(0));
            }
        }
    }
}
