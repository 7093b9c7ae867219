//! Faults in a history, and which promises they excuse.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sendoff_core::EventId;

use super::entry::{Entry, Position};

/// Something that broke, or was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// The node it hit; all of them where none is named.
    pub node: Option<Arc<str>>,
    /// The events it hit, where that is known; otherwise any.
    pub ids: Vec<EventId>,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A process ended without a word.
    Crash,
    /// A process was ended and begun again, in whatever way.
    Restart,
    /// A process stopped running and does not know.
    Pause,
    /// It runs again.
    Resume,
    /// A statement was carried out, and its reply did not arrive.
    LostReply,
    /// A reply arrived long after its statement was carried out.
    LateReply,
    /// A statement was carried out more than once.
    DuplicatedReply,
    /// A node could not reach the database or a target.
    Partition,
    /// The database's clock jumped.
    ClockStep,
    /// A session outside of Sendoff locked rows.
    RowsLocked,
    /// That session ended.
    RowsUnlocked,
    /// A handler hangs, and nothing limits how long.
    HandlerHung,
    /// A row was committed, or its receipt released, when its first hold was over: its node may have
    /// lost it before it had it. Explains a loss that was counted, and no second delivery.
    GraceOver,
    /// Rows were claimed, committed, or proved to be committed, and their node was not told, so nobody
    /// has them until the hold is over. Explains a loss that was counted, and no second delivery.
    Untold,
    /// Anything else.
    Other,
}

impl FaultKind {
    /// Whether no run survives it.
    pub const fn ends_runs(self) -> bool {
        matches!(self, Self::Crash | Self::Restart)
    }
}

impl Fault {
    /// A fault of one node.
    pub fn on(node: impl Into<Arc<str>>, kind: FaultKind) -> Self {
        Self { kind, node: Some(node.into()), ids: Vec::new() }
    }

    /// A fault of all nodes, or of what they share.
    pub fn everywhere(kind: FaultKind) -> Self {
        Self { kind, node: None, ids: Vec::new() }
    }

    /// Narrows it to these events.
    #[must_use]
    pub fn of(mut self, ids: impl IntoIterator<Item = EventId>) -> Self {
        self.ids.extend(ids);
        self
    }
}

/// Where the faults of a history lie; each list ascends.
#[derive(Debug, Default)]
pub(super) struct Faults<'a> {
    first: Option<Position>,
    everywhere: Vec<Position>,
    by_node: BTreeMap<&'a str, Vec<Position>>,
    by_id: BTreeMap<EventId, Vec<Position>>,
    late: BTreeSet<EventId>,
    /// Events whose rows others have locked at the moment.
    locked: BTreeSet<EventId>,
    /// Events in a handler that hangs: since when, and on which nodes.
    hung: BTreeMap<EventId, Vec<(Position, &'a str)>>,
    ends_everywhere: Vec<Position>,
    ends_by_node: BTreeMap<&'a str, Vec<Position>>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(entries: &'a [Entry]) -> Self {
        let mut faults = Self::default();
        for (position, entry) in entries.iter().enumerate() {
            if let Entry::Fault(fault) = entry {
                faults.add(fault, position);
            }
        }
        faults
    }

    fn add(&mut self, fault: &'a Fault, position: Position) {
        if matches!(fault.kind, FaultKind::GraceOver | FaultKind::Untold) {
            self.late.extend(&fault.ids);
            return;
        }
        self.first.get_or_insert(position);
        for id in &fault.ids {
            self.by_id.entry(*id).or_default().push(position);
        }
        match fault.node.as_deref() {
            // A fault that names its events explains nothing about others.
            _ if !fault.ids.is_empty() => {}
            None => self.everywhere.push(position),
            Some(node) => self.by_node.entry(node).or_default().push(position),
        }
        for id in &fault.ids {
            match fault.kind {
                FaultKind::RowsLocked => drop(self.locked.insert(*id)),
                FaultKind::RowsUnlocked => drop(self.locked.remove(id)),
                FaultKind::HandlerHung => {
                    let node = fault.node.as_deref().unwrap_or_default();
                    self.hung.entry(*id).or_default().push((position, node));
                }
                _ => {}
            }
        }
        if fault.kind.ends_runs() {
            match fault.node.as_deref() {
                None => self.ends_everywhere.push(position),
                Some(node) => self.ends_by_node.entry(node).or_default().push(position),
            }
        }
    }

    /// Whether any fault lies before `position`.
    pub(super) fn any_before(&self, position: Position) -> bool {
        self.first.is_some_and(|first| first < position)
    }

    /// Whether a fault explains that `id` ran again: one of these nodes, or of all, between the two
    /// starts; or one that names the event, at any time before the second. (A lost reply to an
    /// extension makes a stale holder before the first of the two runs has even begun.)
    pub(super) fn explain(
        &self,
        id: EventId,
        nodes: [&str; 2],
        first: Position,
        second: Position,
    ) -> bool {
        let between = |list: &[Position]| {
            let next = list.partition_point(|&position| position <= first);
            list.get(next).is_some_and(|&position| position < second)
        };
        let of_node =
            |node: &str| self.by_node.get(process(node)).is_some_and(|list| between(list));
        between(&self.everywhere)
            || nodes.into_iter().any(of_node)
            || self.by_id.get(&id).is_some_and(|list| list[0] < second)
    }

    /// Whether the event cannot end, through no fault of ours: a foreign session has its row locked,
    /// or its handler hangs without a limit on a node that is still there.
    pub(super) fn excuse(&self, id: EventId) -> bool {
        let hangs =
            |(since, node): &(Position, &str)| self.end_of_run(node, *since) == Position::MAX;
        self.locked.contains(&id) || self.hung.get(&id).is_some_and(|hung| hung.iter().any(hangs))
    }

    /// Whether no fault touched this event: none names it, and there are none of whole nodes.
    pub(super) fn spare(&self, id: EventId) -> bool {
        let named = self.by_id.contains_key(&id) || self.late.contains(&id);
        self.everywhere.is_empty() && self.by_node.is_empty() && !named
    }

    /// When a run on `node` that began at `started` and never said it finished must have ended.
    pub(super) fn end_of_run(&self, node: &str, started: Position) -> Position {
        let after = |list: &[Position]| {
            list.get(list.partition_point(|&position| position <= started)).copied()
        };
        let own = self.ends_by_node.get(process(node)).and_then(|list| after(list));
        let shared = after(&self.ends_everywhere);
        own.into_iter().chain(shared).min().unwrap_or(Position::MAX)
    }
}

/// The process of a node: faults hit all of it.
fn process(node: &str) -> &str {
    node.split_once('/').map_or(node, |(process, _)| process)
}
