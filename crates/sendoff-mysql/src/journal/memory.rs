//! What earlier decisions had to do with, so that the next ones need not look for it.

use sendoff_engine::journal::{Books, MemoryKey, Remembered, Shelf};

/// Types that are remembered of one decision. Whoever appends more of them locks the rest later.
const TYPES: usize = 4;

/// Where books were closed, what was read, and what was appended.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) books: Books,
    pub(super) shelf: Shelf,
    habits: Remembered<Habit>,
}

/// Anchors that a decision's append shared besides what it had decided by, those of its types as a
/// rule. The next one takes them with its other locks, in their order.
type Habit = [Option<u16>; TYPES];

impl Memory {
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
