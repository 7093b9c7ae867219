//! Order within a key: the first successful run of each event begins after those of all earlier ones have
//! ended; one by one, also the first that fails.
//!
//! Events that were never delivered do not count, and neither do those of unknown commits: they may
//! have committed at any time.

use std::collections::BTreeMap;

use sendoff_core::EventId;

use super::entry::{Position, WriteOutcome};
use super::story::Story;
use super::violation::Violation;

struct First {
    order: u64,
    id: EventId,
    started: Position,
    ended: Position,
}

pub(super) fn check(
    stories: &BTreeMap<EventId, Story<'_>>,
    one_by_one: bool,
    violations: &mut Vec<Violation>,
) {
    let mut keys: BTreeMap<&str, Vec<First>> = BTreeMap::new();
    for (&id, story) in stories {
        let (Some(write), Some(run)) = (&story.write, story.delivery()) else { continue };
        let (WriteOutcome::Committed, Some(key)) = (write.outcome, write.key) else { continue };
        let first = story.runs.first().filter(|_| one_by_one).unwrap_or(run);
        let (started, ended) = (first.started, run.ended);
        keys.entry(key).or_default().push(First { order: write.order, id, started, ended });
    }
    for (key, mut firsts) in keys {
        firsts.sort_unstable_by_key(|first| first.order);
        let mut last: Option<First> = None;
        for next in firsts {
            match last {
                Some(ref earlier) if next.started < earlier.ended => {
                    let (earlier, later) = (earlier.id, next.id);
                    violations.push(Violation::OutOfOrder { key: key.into(), earlier, later });
                }
                _ => {}
            }
            if last.as_ref().is_none_or(|earlier| earlier.ended < next.ended) {
                last = Some(next);
            }
        }
    }
}
