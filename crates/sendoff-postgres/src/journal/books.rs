//! Where books were closed last, as far as this process has seen: to begin there spares looking for it.
//!
//! Promise: a reading finds the same whatever is remembered here. What begins with a fact that closes is
//! right wherever it begins, and so is what begins with the first fact of all.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many are remembered, at least of those seen last; twice as many at most.
const REMEMBERED: usize = 10_000;

/// A book's number. Two may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Book(u64);

#[derive(Debug, Default)]
pub(super) struct Books {
    hasher: RandomState,
    seen: Mutex<Seen>,
}

/// Positions of closing facts, or 0 where no fact closes.
#[derive(Debug, Default)]
struct Seen {
    lately: HashMap<Book, i64>,
    before: HashMap<Book, i64>,
}

impl Books {
    pub(super) fn book(&self, of: impl Hash) -> Book {
        Book(self.hasher.hash_one(of))
    }

    /// Where to begin.
    pub(super) fn begin(&self, book: Book) -> Option<i64> {
        let mut seen = self.seen();
        if let Some(position) = seen.lately.get(&book) {
            return Some(*position);
        }
        let position = seen.before.remove(&book)?;
        seen.remember(book, position);
        Some(position)
    }

    pub(super) fn closed(&self, book: Book, position: i64) {
        self.seen().remember(book, position);
    }

    pub(super) fn forget(&self, book: Book) {
        let mut seen = self.seen();
        seen.lately.remove(&book);
        seen.before.remove(&book);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn remember(&mut self, book: Book, position: i64) {
        if self.lately.len() >= REMEMBERED && !self.lately.contains_key(&book) {
            self.before = std::mem::take(&mut self.lately);
        }
        self.lately.insert(book, position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_seen_lately_are_remembered_and_never_too_many() {
        let books = Books::default();
        let often = books.book(("often", 0));
        for (number, position) in (0..5 * REMEMBERED).zip(1..) {
            books.closed(books.book(("once", number)), position);
            if number % 1_000 == 0 {
                books.closed(often, position);
            }
        }
        let last = books.book(("once", 5 * REMEMBERED - 1));
        assert_eq!(books.begin(last), i64::try_from(5 * REMEMBERED).ok());
        assert!(books.begin(often).is_some());
        assert_eq!(books.begin(books.book(("once", 0))), None);
        let seen = books.seen();
        assert!(seen.lately.len() <= REMEMBERED && seen.before.len() <= REMEMBERED);
        drop(seen);
        books.forget(often);
        assert_eq!(books.begin(often), None);
    }
}
