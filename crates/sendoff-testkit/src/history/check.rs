//! Judges a history: nothing lost, no phantom, order, fences, bytes, ends.

use std::collections::BTreeMap;

use sendoff_core::EventId;
use sendoff_core::order::AfterDead;

use super::entry::{Entry, WriteOutcome};
use super::fault::Faults;
use super::log::History;
use super::story::{Ran, Story, gather};
use super::verdict::Verdict;
use super::violation::Violation;
use super::{attempts, order};

/// What a history is held to, beyond what always holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expectations {
    /// First deliveries of a key come in the order of their commits, where a dead event means this for those after
    /// it.
    pub ordered: Option<AfterDead>,
    /// With it: first runs do, also those that fail. Not where events are handed over in batches.
    pub one_by_one: bool,
    /// Faults are over and there was time: nothing may be owed any more, but for rows that a foreign
    /// session has locked and events whose handler hangs without a limit.
    pub healed: bool,
    /// The attempts an event has.
    pub max_attempts: Option<u32>,
    /// Some runs failed without using up an attempt (an outage of the target, a shutdown that was
    /// not logged), so that only the numbers of attempts are bounded, not the runs.
    pub outages: bool,
}

/// Judges a history. Writers wait meanwhile.
pub fn check(history: &History, expected: &Expectations) -> Verdict {
    history.read(|entries| check_entries(entries, expected))
}

/// Judges these entries, in the order they happened. Takes O(n log n).
pub fn check_entries(entries: &[Entry], expected: &Expectations) -> Verdict {
    let faults = Faults::of(entries);
    let stories = gather(entries, &faults);
    let mut verdict = Verdict {
        faults: entries.iter().filter(|entry| matches!(entry, Entry::Fault(_))).count() as u64,
        ..Verdict::default()
    };
    for (&id, story) in &stories {
        count(story, &mut verdict);
        existence(id, story, &mut verdict);
        repetition(id, story, &faults, &mut verdict);
        overlap(id, story, &mut verdict.violations);
        content(id, story, &mut verdict.violations);
        attempts::check(id, story, expected, &faults, &mut verdict.violations);
        let stale = story.stale.iter().map(|&at| Violation::StaleSettlement { id, at });
        verdict.violations.extend(stale);
        let owed = expected.healed && story.is_pending() && !faults.excuse(id);
        if let (true, Some((status, _))) = (owed, story.stands) {
            verdict.violations.push(Violation::NotTerminal { id, status });
        }
    }
    for (at, entry) in entries.iter().enumerate() {
        if let Entry::Moved { node, applied, current, .. } = entry {
            verdict.fenced += u64::from(!applied);
            if *applied && !current {
                verdict.violations.push(Violation::StaleMove { node: node.clone(), at });
            }
        }
    }
    if let Some(after_dead) = expected.ordered {
        order::check(&stories, after_dead, expected.one_by_one, &mut verdict.violations);
    }
    verdict
}

fn count(story: &Story<'_>, verdict: &mut Verdict) {
    match story.outcome() {
        Some(WriteOutcome::Committed) => verdict.written += 1,
        Some(WriteOutcome::Aborted) => verdict.rolled_back += 1,
        Some(WriteOutcome::Unknown) => verdict.unknown += 1,
        None => {}
    }
    verdict.runs += story.runs.len() as u64;
    verdict.delivered += u64::from(story.delivery().is_some());
    let successes = story.runs.iter().filter(|run| run.ok).count() as u64;
    verdict.duplicates += successes.saturating_sub(1);
    verdict.dead += u64::from(story.is_dead());
    verdict.pending += u64::from(story.is_pending());
    verdict.fenced += story.fenced;
}

/// An event exists if and only if its transaction committed.
fn existence(id: EventId, story: &Story<'_>, verdict: &mut Verdict) {
    match story.outcome() {
        Some(WriteOutcome::Committed) => {
            if story.delivery().is_none() && !story.is_dead() && !story.is_pending() {
                verdict.lost += 1;
                verdict.violations.push(Violation::Lost { id });
            }
        }
        Some(WriteOutcome::Unknown) => {}
        Some(WriteOutcome::Aborted) | None => {
            // A run is enough: what a failing handler saw, it saw.
            if !story.runs.is_empty() {
                verdict.phantoms += 1;
                verdict.violations.push(Violation::Phantom { id });
            }
            if story.stands.is_some() {
                verdict.violations.push(Violation::GhostRow { id });
            }
        }
    }
}

/// A run after one that succeeded needs a fault in between.
fn repetition(id: EventId, story: &Story<'_>, faults: &Faults<'_>, verdict: &mut Verdict) {
    let mut delivered: Option<&Ran<'_>> = None;
    for run in &story.runs {
        if let Some(before) = delivered {
            let (first, second) = (before.started, run.started);
            if !faults.explain(id, [before.node, run.node], first, second) {
                verdict.unexplained += 1;
                verdict.violations.push(Violation::UnexplainedDuplicate { id, first, second });
            }
        }
        if run.ok {
            delivered = Some(run);
        }
    }
}

/// One node never runs an event twice at once.
fn overlap(id: EventId, story: &Story<'_>, violations: &mut Vec<Violation>) {
    let mut last: BTreeMap<&str, &Ran<'_>> = BTreeMap::new();
    for run in &story.runs {
        let Some(before) = last.insert(run.node, run) else { continue };
        if run.started < before.ended {
            let (first, second) = (before.started, run.started);
            violations.push(Violation::Overlap { id, node: run.node.into(), first, second });
        }
    }
}

/// What was written is what is delivered.
fn content(id: EventId, story: &Story<'_>, violations: &mut Vec<Violation>) {
    let Some(write) = &story.write else { return };
    let altered = story.runs.iter().filter(|run| run.digest != write.digest);
    violations.extend(altered.map(|run| Violation::Altered { id, at: run.started }));
}
