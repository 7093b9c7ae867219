//! How many keys a look takes.

use crate::store::{KeyRun, TakenKey};

/// How many keys a look takes, so that each brings many events: holding a key and letting it go costs as much for one
/// event as for all that it has. Fewer keys each time most have more events than fit, and more again each time they
/// have not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Breadth {
    keys: usize,
}

impl Breadth {
    pub(crate) const fn new(most: usize) -> Self {
        Self { keys: most }
    }

    /// So many, but no fewer than `least`, as many as can be at work side by side.
    pub(crate) fn keys(self, least: usize) -> usize {
        self.keys.max(least)
    }

    /// Of so many keys that were read, this many had more than fitted.
    pub(crate) fn read(&mut self, keys: usize, cut: usize, most: usize) {
        if cut * 2 > keys {
            self.keys = (self.keys.min(keys) / 2).max(1);
        } else if cut * 4 < keys {
            self.keys = self.keys.saturating_mul(2).min(most);
        }
    }
}

/// Whether a key has more events than its share of what fits. One that goes event by event, because its holder
/// vanished, is not cut by that.
pub(crate) fn is_cut(key: &TakenKey, run: &KeyRun, share: u32) -> bool {
    !run.whole && key.run >= share && run.rows.len() >= share as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_make_looks_narrow_and_short_ones_make_them_wide_again() {
        let mut breadth = Breadth::new(500);
        assert_eq!(breadth.keys(8), 500);
        breadth.read(500, 400, 500);
        assert_eq!(breadth.keys(8), 250);
        for _ in 0..10 {
            breadth.read(breadth.keys(8), breadth.keys(8), 500);
        }
        assert_eq!(breadth.keys(8), 8, "as many as can be at work");
        breadth.read(8, 3, 500);
        assert_eq!(breadth.keys(8), 8, "some are long");
        for _ in 0..10 {
            breadth.read(8, 0, 500);
        }
        assert_eq!(breadth.keys(8), 500);
    }
}
