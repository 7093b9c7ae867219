//! How full a lane is, and what is kept free in it.

use super::share::{Bound, Part};
use crate::appetite::Portion;

/// A lane of all handlers: what is in it, and what each has to itself.
#[derive(Debug)]
pub(super) struct Fill {
    bound: Bound,
    /// How many events are in it.
    pub(super) count: usize,
    /// What is taken, or kept for somebody: of each handler what it has, or what is its own if that is
    /// more.
    spoken_for: Bound,
}

/// What one handler has in a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Has {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl Fill {
    /// Of this bound, for handlers with these parts, or for more than that where each has one place.
    pub(super) fn new(bound: Bound, parts: impl Iterator<Item = Part>) -> Self {
        let mut fill = Self { bound, count: 0, spoken_for: Bound { count: 0, bytes: 0 } };
        for Part { own, .. } in parts {
            fill.spoken_for.count += own.count;
            fill.spoken_for.bytes = fill.spoken_for.bytes.saturating_add(own.bytes);
        }
        fill
    }

    /// How much more a handler can have: what is left of its own, and what is nobody's.
    pub(super) fn room(&self, part: Part, has: Has) -> Portion {
        let room = |bound: usize, spoken_for: usize, own: usize, most: usize, has: usize| {
            let free = own.saturating_sub(has).saturating_add(bound.saturating_sub(spoken_for));
            free.min(most.saturating_sub(has))
        };
        let (bound, taken, Part { own, most }) = (self.bound, self.spoken_for, part);
        Portion {
            rows: room(bound.count, taken.count, own.count, most.count, has.count),
            bytes: room(bound.bytes, taken.bytes, own.bytes, most.bytes, has.bytes),
        }
    }

    /// A handler has so much now.
    pub(super) fn changed(&mut self, part: Part, before: Has, now: Has) {
        let own = part.own;
        self.count = self.count + now.count - before.count;
        let taken = &mut self.spoken_for;
        taken.count = taken.count + own.count.max(now.count) - own.count.max(before.count);
        taken.bytes = (taken.bytes.saturating_add(own.bytes.max(now.bytes)))
            .saturating_sub(own.bytes.max(before.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound { count: 10, bytes: 100 };
    const PART: Part =
        Part { own: Bound { count: 2, bytes: 20 }, most: Bound { count: 5, bytes: 50 } };

    fn has(count: usize) -> Has {
        Has { count, bytes: count * 10 }
    }

    fn rows(count: usize) -> Portion {
        Portion { rows: count, bytes: count * 10 }
    }

    /// Holds D8: whatever the others have.
    #[test]
    fn what_is_a_handlers_own_is_left_to_it_and_the_rest_is_for_whoever_comes_first() {
        let mut lane = Fill::new(BOUND, std::iter::repeat_n(PART, 4));
        assert_eq!(lane.room(PART, has(0)), rows(4), "its own two, and two of nobody");
        lane.changed(PART, has(0), has(4));
        assert_eq!(lane.room(PART, has(4)), rows(0), "the others' own stays free");
        assert_eq!((lane.room(PART, has(0)), lane.count), (rows(2), 4));
        lane.changed(PART, has(4), has(3));
        assert_eq!((lane.room(PART, has(0)), lane.room(PART, has(3))), (rows(3), rows(1)));
    }

    #[test]
    fn one_that_is_larger_than_all_takes_nothing_from_what_is_anothers_own() {
        let mut lane = Fill::new(BOUND, std::iter::repeat_n(PART, 2));
        lane.changed(PART, has(0), Has { count: 1, bytes: 1_000 });
        assert_eq!(lane.room(PART, Has { count: 1, bytes: 1_000 }).bytes, 0);
        assert_eq!(lane.room(PART, has(0)).bytes, 20);
        lane.changed(PART, Has { count: 1, bytes: 1_000 }, has(0));
        assert_eq!(lane.room(PART, has(0)), rows(5));
    }
}
