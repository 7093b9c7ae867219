//! What earlier decisions had to do with, so that the next ones need not look for it.

use sendoff_core::journal::{Query, Tag};
use sendoff_engine::journal::{Books, MemoryKey, Remembered};

/// Types that are remembered of one decision. Whoever appends more of them locks the rest later.
const TYPES: usize = 4;

/// Where books were closed, and what was appended.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) books: Books,
    habits: Remembered<Habit>,
}

/// Anchors that a decision's append shared besides what it had decided by, those of its types as a
/// rule. The next one takes them with its other locks, in their order.
type Habit = [Option<u16>; TYPES];

impl Memory {
    /// What stands for these queries. Others may have the same.
    pub(super) fn key<'q>(queries: impl IntoIterator<Item = Option<&'q Query>>) -> MemoryKey {
        key(queries.into_iter().flatten(), Tag::as_str)
    }

    /// What stands for queries like this one, with other values in their tags.
    pub(super) fn kind(query: &Query) -> MemoryKey {
        key([query], Tag::key)
    }

    /// What decisions of this kind lock for their appends.
    pub(super) fn shared(&self, kind: MemoryKey) -> impl Iterator<Item = u16> {
        self.habits.get(kind).into_iter().flatten().flatten()
    }

    /// Remembers what a decision of this kind locked besides, before what is remembered already.
    pub(super) fn share(&self, kind: MemoryKey, slots: Vec<u16>) {
        let mut habit = Habit::default();
        let slots = slots.into_iter().chain(self.shared(kind));
        habit.iter_mut().zip(slots).for_each(|(place, slot)| *place = Some(slot));
        self.habits.put(kind, habit);
    }
}

fn key<'q>(queries: impl IntoIterator<Item = &'q Query>, of: impl Fn(&Tag) -> &str) -> MemoryKey {
    let items = queries.into_iter().flat_map(Query::items);
    let parts = items
        .map(|item| (item.types().collect::<Vec<_>>(), item.tags().map(&of).collect::<Vec<_>>()));
    MemoryKey::of(parts.collect::<Vec<_>>())
}
