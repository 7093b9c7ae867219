//! How often facts that failed were tried by this node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sendoff_core::journal::{Position, Recorded};
use sendoff_core::limits;

use crate::lock::lock;

/// Failed tries of a pair's facts. Bounded: it forgets the highest positions first, which are tried last.
#[derive(Debug, Default)]
pub(super) struct Tries(Mutex<BTreeMap<Position, u32>>);

impl Tries {
    /// This one has failed so often at least, by what another node wrote down.
    pub(super) fn learn(&self, position: Position, tries: u32) {
        let mut failed = lock(&self.0);
        let known = failed.entry(position).or_default();
        *known = tries.max(*known);
    }

    /// Which attempt at each of these facts comes next.
    pub(super) fn next(&self, facts: &[Arc<Recorded>]) -> Vec<u32> {
        let failed = lock(&self.0);
        let attempt = |fact: &Arc<Recorded>| {
            failed.get(&fact.position).map_or(1, |tries| tries.saturating_add(1))
        };
        facts.iter().map(attempt).collect()
    }

    /// These are over.
    pub(super) fn done(&self, facts: &[Arc<Recorded>]) {
        let mut failed = lock(&self.0);
        for fact in facts {
            failed.remove(&fact.position);
        }
    }

    /// This one was tried, and failed.
    pub(super) fn failed(&self, position: Position) {
        let mut failed = lock(&self.0);
        let tries = failed.entry(position).or_default();
        *tries = tries.saturating_add(1);
        if failed.len() > limits::BATCH_ROWS {
            failed.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::Timestamp;
    use sendoff_core::journal::Fact;

    use super::*;

    fn fact(number: u64) -> Arc<Recorded> {
        let fact = Fact::builder(("a", "{}")).build().unwrap();
        let position = Position::new(number).unwrap();
        Arc::new(Recorded { position, recorded_at: Timestamp::from_micros(0), fact })
    }

    #[test]
    fn each_fact_has_its_own_count_until_it_is_over() {
        let (tries, facts) = (Tries::default(), [fact(1), fact(2), fact(3)]);
        assert_eq!(tries.next(&facts), [1, 1, 1]);
        tries.failed(facts[1].position);
        tries.failed(facts[1].position);
        tries.failed(facts[2].position);
        assert_eq!(tries.next(&facts), [1, 3, 2]);
        tries.done(&facts[2..]);
        assert_eq!(tries.next(&facts), [1, 3, 1]);
        tries.learn(facts[0].position, 4);
        tries.learn(facts[1].position, 1);
        assert_eq!(tries.next(&facts), [5, 3, 1]);
    }

    #[test]
    fn it_is_bounded() {
        let tries = Tries::default();
        (1..=5_000).for_each(|number| tries.failed(Position::new(number).unwrap()));
        assert_eq!(lock(&tries.0).len(), limits::BATCH_ROWS);
        assert_eq!(tries.next(&[fact(1)]), [2]);
    }
}
