//! How often an event may run.
//!
//! A failed run counts one attempt, and after `max_attempts` the event is dead. A holder who
//! vanished counts one as well, but by the next claim; what was so counted and then released may be
//! run once more, so after any fault a number may be one above the maximum. A run that was lost is
//! made up for by another, so there may be as many more runs as there were losses.

use sendoff_core::{EventId, Status};

use super::check::Expectations;
use super::entry::Position;
use super::fault::Faults;
use super::story::Story;
use super::violation::Violation;

pub(super) fn check(
    id: EventId,
    story: &Story<'_>,
    expected: &Expectations,
    faults: &Faults<'_>,
    violations: &mut Vec<Violation>,
) {
    let Some(max_attempts) = expected.max_attempts else { return };
    let numbers = story.runs.iter().map(|run| (run.attempt, run.started));
    let stored = story.stands.map(|(_, attempts)| (attempts, Position::MAX));
    let beyond = numbers.chain(stored).find_map(|(attempt, at)| {
        let limit = max_attempts.saturating_add(u32::from(faults.any_before(at)));
        (attempt > limit).then_some(Violation::TooManyAttempts { id, attempt, limit })
    });
    violations.extend(beyond);

    // Without a fault only runs that failed count.
    let failed = story.runs.iter().filter(|run| !run.ok).count() as u64;
    if let Some((Status::Done, attempts)) = story.stands
        && faults.spare(id)
        && u64::from(attempts) > failed
    {
        violations.push(Violation::AttemptWithoutRun { id, attempts, failed });
    }

    if expected.outages {
        return;
    }
    let losses = story.runs.windows(2).filter(|pair| {
        let nodes = [pair[0].node, pair[1].node];
        faults.explain(id, nodes, pair[0].started, pair[1].started)
    });
    let limit = u64::from(max_attempts) + losses.count() as u64;
    let runs = story.runs.len() as u64;
    if runs > limit {
        violations.push(Violation::TooManyRuns { id, runs, limit });
    }
}
