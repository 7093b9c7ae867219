//! What goes wrong in a demo, decided by its seed.

use fastrand::Rng;

/// Decides what goes wrong. The same seed, order and try always get the same answer, whichever
/// thread asks and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance {
    pub(crate) seed: u64,
    pub(crate) rollback_percent: u8,
    pub(crate) failure_percent: u8,
}

impl Chance {
    /// Whether this try to place the order is rolled back.
    pub(crate) fn rolls_back(&self, order: u64, tries: u32) -> bool {
        self.dice(order, tries, 1).u8(..100) < self.rollback_percent
    }

    /// Whether this attempt to deliver the order's event fails.
    pub(crate) fn fails(&self, order: u64, attempt: u32) -> bool {
        self.dice(order, attempt, 2).u8(..100) < self.failure_percent
    }

    /// What the order is worth.
    pub(crate) fn total_cents(&self, order: u64) -> u32 {
        self.dice(order, 0, 3).u32(100..50_000)
    }

    fn dice(&self, order: u64, count: u32, question: u64) -> Rng {
        // Odd factors, so that neighbouring orders and tries are not neighbouring seeds.
        let mixed = order
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(u64::from(count).wrapping_mul(0xd1b5_4a32_d192_ed03))
            .wrapping_add(question.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7));
        Rng::with_seed(self.seed ^ mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_met_and_repeats_with_its_seed() {
        let chance = Chance { seed: 7, rollback_percent: 10, failure_percent: 0 };
        let count = || (0..10_000).filter(|&order| chance.rolls_back(order, 1)).count();
        assert!((800..1_200).contains(&count()), "{}", count());
        assert_eq!(count(), count());
        assert!((0..1_000).all(|order| !chance.fails(order, 1)));

        let always = Chance { failure_percent: 100, ..chance };
        assert!((0..1_000).all(|order| always.fails(order, 1)));
    }
}
