//! Order within a key: the first successful run of each event begins after all earlier ones were over; one by
//! one, also the first that fails.
//!
//! An event is over with its first successful run, or when somebody let others go on without it. One that is dead
//! and parks its key is not over until then; where dead ones are skipped it holds back nothing. Events of which
//! nobody knows how they ended do not count, and neither do those of unknown commits: they may have committed at
//! any time.

use std::collections::BTreeMap;

use sendoff_core::EventId;
use sendoff_core::order::AfterDead;

use super::entry::{Position, WriteOutcome};
use super::story::Story;
use super::violation::Violation;

struct First {
    order: u64,
    id: EventId,
    /// When it may have been too early; never, if it did not run.
    started: Position,
    /// When those after it may begin.
    over: Position,
}

/// When an event was over, `Position::MAX` if it holds back its key to the end. One that is skipped holds back
/// nothing: the node that it died on goes on before that is written.
fn over(story: &Story<'_>, after_dead: AfterDead) -> Option<Position> {
    let delivered = story.delivery().map(|run| run.ended);
    let over = delivered.into_iter().chain(story.let_go);
    match after_dead {
        AfterDead::Skip if story.died.is_some() => Some(0),
        AfterDead::Skip => over.min(),
        AfterDead::Park => over.min().or_else(|| story.is_dead().then_some(Position::MAX)),
    }
}

pub(super) fn check(
    stories: &BTreeMap<EventId, Story<'_>>,
    after_dead: AfterDead,
    one_by_one: bool,
    violations: &mut Vec<Violation>,
) {
    let mut keys: BTreeMap<&str, Vec<First>> = BTreeMap::new();
    for (&id, story) in stories {
        let (Some(write), Some(over)) = (&story.write, over(story, after_dead)) else { continue };
        let (WriteOutcome::Committed, Some(key)) = (write.outcome, write.key) else { continue };
        let first = if one_by_one { story.runs.first() } else { story.delivery() };
        let started = first.map_or(Position::MAX, |run| run.started);
        keys.entry(key).or_default().push(First { order: write.order, id, started, over });
    }
    for (key, mut firsts) in keys {
        firsts.sort_unstable_by_key(|first| first.order);
        let mut last: Option<First> = None;
        for next in firsts {
            match last {
                Some(ref earlier) if next.started < earlier.over => {
                    let (earlier, later) = (earlier.id, next.id);
                    violations.push(Violation::OutOfOrder { key: key.into(), earlier, later });
                }
                _ => {}
            }
            if last.as_ref().is_none_or(|earlier| earlier.over < next.over) {
                last = Some(next);
            }
        }
    }
}
