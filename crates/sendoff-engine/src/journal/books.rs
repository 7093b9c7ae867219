//! What a store remembers of earlier decisions, so that the next ones need not look for it.
//!
//! Promise: a reading finds the same whatever is remembered. Nothing here has to be so: it is proved
//! whenever it is used, and what is not so costs time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sendoff_core::EventId;
use sendoff_core::journal::{Position, Query, Tag};

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

    /// The key of a model, by the facts it is made of and those that close it.
    pub fn of_model(query: &Query, closing: Option<&Query>) -> Self {
        Self::of_queries([query].into_iter().chain(closing), Tag::as_str)
    }

    /// The key of models of this kind, whatever the values of their tags.
    pub fn of_kind(query: &Query) -> Self {
        Self::of_queries([query], Tag::key)
    }

    fn of_queries<'q>(
        queries: impl IntoIterator<Item = &'q Query>,
        of: impl Fn(&Tag) -> &str,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        for item in queries.into_iter().flat_map(Query::items) {
            item.types().for_each(|event_type| event_type.hash(&mut hasher));
            item.types().len().hash(&mut hasher);
            item.tags().for_each(|tag| of(tag).hash(&mut hasher));
            item.tags().len().hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}

/// What was used lately, and a bounded part of what was used before.
#[derive(Debug)]
pub struct Remembered<V> {
    used: Mutex<Used<V>>,
    /// What `lately` and `before` may weigh, each.
    most: usize,
}

#[derive(Debug)]
struct Used<V> {
    lately: HashMap<MemoryKey, Weighed<V>>,
    before: HashMap<MemoryKey, Weighed<V>>,
    /// What is remembered lately.
    weight: usize,
}

#[derive(Debug)]
struct Weighed<V> {
    value: V,
    weight: usize,
}

impl<V: Clone> Remembered<V> {
    /// Remembers values that weigh so much together, at least of those used last; twice as much at most.
    pub fn weighing(most: usize) -> Self {
        let used = Used { lately: HashMap::new(), before: HashMap::new(), weight: 0 };
        Self { used: Mutex::new(used), most }
    }

    /// What is remembered.
    pub fn get(&self, key: MemoryKey) -> Option<V> {
        let mut used = self.used();
        if let Some(found) = used.lately.get(&key) {
            return Some(found.value.clone());
        }
        let found = used.before.remove(&key)?;
        let value = found.value.clone();
        used.put(key, found, self.most);
        Some(value)
    }

    /// Remembers this, and nothing else by that key.
    pub fn put(&self, key: MemoryKey, value: V) {
        self.put_weighing(key, value, 1);
    }

    /// The same for a value that weighs so much.
    pub fn put_weighing(&self, key: MemoryKey, value: V, weight: usize) {
        self.used().put(key, Weighed { value, weight }, self.most);
    }

    /// Forgets what was wrong.
    pub fn forget(&self, key: MemoryKey) {
        let mut used = self.used();
        used.take(key);
        used.before.remove(&key);
    }

    fn used(&self) -> MutexGuard<'_, Used<V>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Used<V> {
    fn put(&mut self, key: MemoryKey, new: Weighed<V>, most: usize) {
        self.take(key);
        if self.weight + new.weight > most {
            self.before = std::mem::take(&mut self.lately);
            self.weight = 0;
        }
        self.before.remove(&key);
        self.weight += new.weight;
        self.lately.insert(key, new);
    }

    fn take(&mut self, key: MemoryKey) {
        if let Some(old) = self.lately.remove(&key) {
            self.weight -= old.weight;
        }
    }
}

impl<V: Clone> Default for Remembered<V> {
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
