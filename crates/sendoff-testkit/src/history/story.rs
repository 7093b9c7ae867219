//! The entries of one event, brought together.

use std::collections::BTreeMap;

use sendoff_core::{EventId, Status};

use super::digest::Digest;
use super::entry::{Decision, Ending, Entry, Position, WriteOutcome};
use super::fault::Faults;

/// What a history says about one event.
#[derive(Debug, Default)]
pub(super) struct Story<'a> {
    pub(super) write: Option<Write<'a>>,
    /// In the order they started.
    pub(super) runs: Vec<Ran<'a>>,
    /// Settlements applied with a token that was not the row's.
    pub(super) stale: Vec<Position>,
    pub(super) fenced: u64,
    pub(super) settled_dead: bool,
    /// When it first ended dead.
    pub(super) died: Option<Position>,
    /// When whoever may decide that said that others need not wait for it.
    pub(super) let_go: Option<Position>,
    pub(super) stands: Option<(Status, u32)>,
}

#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) outcome: WriteOutcome,
    pub(super) digest: Digest,
    pub(super) key: Option<&'a str>,
    pub(super) order: u64,
}

#[derive(Debug)]
pub(super) struct Ran<'a> {
    pub(super) node: &'a str,
    pub(super) attempt: u32,
    pub(super) digest: Digest,
    pub(super) started: Position,
    /// `Position::MAX` while it goes on.
    pub(super) ended: Position,
    pub(super) ok: bool,
}

impl<'a> Story<'a> {
    pub(super) fn outcome(&self) -> Option<WriteOutcome> {
        self.write.as_ref().map(|write| write.outcome)
    }

    /// The first run that succeeded: whichever ended first, since one of a hold that was lost may go on for long.
    pub(super) fn delivery(&self) -> Option<&Ran<'a>> {
        self.runs.iter().filter(|run| run.ok).min_by_key(|run| run.ended)
    }

    pub(super) fn is_dead(&self) -> bool {
        // How it stands is the last word: an operator may have requeued it.
        match self.stands {
            Some((status, _)) => status == Status::Dead,
            None => self.settled_dead,
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        self.stands.is_some_and(|(status, _)| status.is_pending())
    }

    fn decided(&mut self, decision: Decision, at: Position) {
        match decision {
            Decision::Requeued => self.settled_dead = false,
            Decision::Discarded => self.settled_dead = true,
            Decision::Resumed | Decision::Purged => {}
        }
        if matches!(decision, Decision::Discarded | Decision::Resumed) {
            self.let_go.get_or_insert(at);
        }
        if decision != Decision::Resumed {
            // It stands there no more.
            self.stands = None;
        }
    }

    fn wrote(&mut self, next: Write<'a>) {
        let keep = matches!(self.outcome(), Some(WriteOutcome::Committed));
        if !keep {
            self.write = Some(next);
        }
    }
}

pub(super) fn gather<'a>(
    entries: &'a [Entry],
    faults: &Faults<'a>,
) -> BTreeMap<EventId, Story<'a>> {
    let mut stories: BTreeMap<EventId, Story<'a>> = BTreeMap::new();
    for (position, entry) in entries.iter().enumerate() {
        match entry {
            Entry::Written { id, key, digest, outcome, seq } => {
                let order = seq.unwrap_or(position as u64);
                let (outcome, digest) = (*outcome, *digest);
                let write = Write { outcome, digest, key: key.as_deref(), order };
                stories.entry(*id).or_default().wrote(write);
            }
            Entry::Started { node, id, attempt, digest } => {
                stories.entry(*id).or_default().runs.push(Ran {
                    node,
                    attempt: *attempt,
                    digest: *digest,
                    started: position,
                    ended: faults.end_of_run(node, position),
                    ok: false,
                });
            }
            Entry::Finished { started, ok } => {
                let Some(Entry::Started { id, .. }) = entries.get(*started) else { continue };
                let runs = &mut stories.entry(*id).or_default().runs;
                if let Some(run) = runs.iter_mut().rev().find(|run| run.started == *started) {
                    run.ended = position.min(run.ended);
                    run.ok = *ok;
                }
            }
            Entry::Settled { id, ending, applied, current, .. } => {
                let story = stories.entry(*id).or_default();
                if !applied {
                    story.fenced += 1;
                } else if *ending == Ending::Dead {
                    story.settled_dead = true;
                    story.died.get_or_insert(position);
                }
                if *applied && !current {
                    story.stale.push(position);
                }
            }
            Entry::Decided { id, decision } => {
                stories.entry(*id).or_default().decided(*decision, position);
            }
            Entry::Fault(_) | Entry::Moved { .. } => {}
            Entry::Stands { id, status, attempts } => {
                stories.entry(*id).or_default().stands = Some((*status, *attempts));
            }
        }
    }
    stories
}
