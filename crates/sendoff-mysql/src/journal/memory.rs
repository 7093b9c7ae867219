//! What earlier decisions had to do with, so that the next ones need not look for it. Nothing here has to
//! be so: it is proved whenever it is used, and what is not so costs time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sendoff_core::EventId;
use sendoff_core::journal::{Position, Query, Tag};

/// Entries of each kind, of a few dozen bytes each. Two that have the same place take turns.
const PLACES: usize = 4_096;
/// Types that are remembered of one decision. Whoever appends more of them locks the rest later.
const TYPES: usize = 4;

/// Where books were closed, and what was appended.
#[derive(Default)]
pub(super) struct Memory {
    books: Mutex<Vec<Option<Book>>>,
    habits: Mutex<Vec<Option<Habit>>>,
}

/// What is known of the book that a model is kept in.
///
/// Looking for the fact that closed it last costs as much as reading what came later. An answer that
/// begins with the very fact that closed it once has all later ones, whoever wrote them.
#[derive(Clone, Copy)]
pub(super) struct Book {
    pub(super) key: u64,
    /// The fact that closed it; none if it never was.
    pub(super) closed: Option<(Position, EventId)>,
}

/// Anchors that a decision's append shared besides what it had decided by, those of its types as a
/// rule. The next one takes them with its other locks, in their order.
#[derive(Clone, Copy)]
struct Habit {
    kind: u64,
    slots: [Option<u16>; TYPES],
}

impl Memory {
    /// What stands for these queries. Others may have the same.
    pub(super) fn key<'q>(queries: impl IntoIterator<Item = Option<&'q Query>>) -> u64 {
        hash(queries.into_iter().flatten(), Tag::as_str)
    }

    /// What stands for queries like this one, with other values in their tags.
    pub(super) fn kind(query: &Query) -> u64 {
        hash([query], Tag::key)
    }

    pub(super) fn book(&self, key: u64) -> Option<Book> {
        get(&self.books, key).filter(|book| book.key == key)
    }

    pub(super) fn note(&self, book: Book) {
        put(&self.books, book.key, Some(book));
    }

    pub(super) fn forget(&self, key: u64) {
        put(&self.books, key, None);
    }

    /// What decisions of this kind lock for their appends.
    pub(super) fn shared(&self, kind: u64) -> impl Iterator<Item = u16> {
        let habit = get(&self.habits, kind).filter(|habit| habit.kind == kind);
        habit.into_iter().flat_map(|habit| habit.slots).flatten()
    }

    /// Remembers what a decision of this kind locked besides, before what is remembered already.
    pub(super) fn share(&self, kind: u64, slots: Vec<u16>) {
        let slots: Vec<_> = slots.into_iter().chain(self.shared(kind)).collect();
        let mut habit = Habit { kind, slots: [None; TYPES] };
        habit.slots.iter_mut().zip(slots).for_each(|(place, slot)| *place = Some(slot));
        put(&self.habits, kind, Some(habit));
    }
}

fn hash<'q>(queries: impl IntoIterator<Item = &'q Query>, of: impl Fn(&Tag) -> &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for item in queries.into_iter().flat_map(Query::items) {
        item.types().len().hash(&mut hasher);
        item.types().for_each(|event_type| event_type.hash(&mut hasher));
        item.tags().for_each(|tag| of(tag).hash(&mut hasher));
    }
    hasher.finish()
}

fn lock<T>(places: &Mutex<T>) -> MutexGuard<'_, T> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(key: u64) -> usize {
    usize::try_from(key % PLACES as u64).unwrap_or_default()
}

fn get<T: Copy>(places: &Mutex<Vec<Option<T>>>, key: u64) -> Option<T> {
    lock(places).get(place(key)).copied().flatten()
}

fn put<T: Copy>(places: &Mutex<Vec<Option<T>>>, key: u64, value: Option<T>) {
    let mut places = lock(places);
    if places.is_empty() {
        places.resize(PLACES, None);
    }
    places[place(key)] = value;
}
