//! Every hold of this node, from admission to settlement: what may start, run on, be settled or
//! released.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{EventId, Holding, Lane, limits};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Deadline, Looks, Ticket};
use crate::dispatch::{comes_to, is_company};
use crate::lock::lock;
use crate::store::Held;

mod join;
#[cfg(test)]
mod tests;

pub(crate) use join::Joining;
use join::Renewal;

/// What this node holds: every event from the moment it enters a lane until its settlement is
/// written, with the token to settle it by and the time until which the hold is certain.
///
/// It is also the tracker of what is in flight: an event that is here already is not taken in a
/// second time, so it never runs twice at once.
#[derive(Debug)]
pub(crate) struct Holds {
    table: Mutex<Table>,
    /// A hold with less left than this is not taken in: it might run out before anybody has looked.
    /// As long as a statement may take; see [`ending`](Self::ending).
    horizon: Duration,
    /// After this long in work a run counts as stuck: no longer extended, so that others may have the
    /// row. It is not taken in here again while the run goes on, or one event could have every worker.
    ttl: Option<Duration>,
    /// Whether there is a writer who tells the database what is released.
    releases: bool,
    /// Some entry or release came or went.
    changed: Notify,
    /// The claims on their way here.
    pub(crate) looks: Arc<Looks>,
}

#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<EventId, Hold>,
    runs: u64,
    /// Released here, and to be made visible again by the settlement writer.
    released: VecDeque<Held>,
    /// Releases that found no room there.
    overflow: u64,
    /// Whether one of them could be delivered here, so that it is worth a look once it is visible.
    ring: bool,
}

#[derive(Debug)]
struct Hold {
    run: Run,
    lane: Lane,
    /// None once the database said somebody else has the row, while our run goes on.
    held: Option<Held>,
    until: Deadline,
    admitted: Instant,
    /// None while it waits in its lane.
    started: Option<Instant>,
    /// Whether it has run, and only its settlement is waited for.
    over: bool,
    joined: Joined,
    /// How many transactions of the run may have settled it.
    joins: usize,
    renewal: Renewal,
}

/// Whether the row is settled in a transaction of the handler's, and what its run says of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    No,
    /// From here on it is not extended: its token must stay as it was told.
    Yes,
    /// And the run succeeded, so that the transaction should have committed.
    Succeeded,
}

/// The answer to somebody who brings an event.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is taken in.
    Ticket(Ticket),
    /// It is here already; the newer hold serves the run that is under way.
    InFlight,
    /// Too little is left of its hold, which is released.
    TooLate,
    /// A run of it is stuck here: its hold is released, for others.
    Stuck,
}

/// Tells two stays of one event apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run(u64);

/// What releases may pile up to; beyond it the holds run out by themselves.
const RELEASED: usize = 50 * limits::BATCH_ROWS;

impl Table {
    fn release(&mut self, held: Held) {
        if self.released.len() < RELEASED {
            self.released.push_back(held);
        } else {
            self.overflow += 1;
        }
    }
}

impl Holds {
    pub(crate) fn new(horizon: Duration, ttl: Option<Duration>) -> Self {
        let (table, changed, looks) = (Mutex::default(), Notify::new(), Arc::default());
        Self { table, horizon, ttl, releases: true, changed, looks }
    }

    /// For a relay, whose batches put back by themselves what they have no use for: nothing is too
    /// late, and nothing is kept to be released.
    pub(crate) fn unreleased() -> Self {
        Self { releases: false, ..Self::new(Duration::ZERO, None) }
    }

    /// Takes an event in, unless it is here already or comes too late.
    pub(crate) fn admit(self: &Arc<Self>, held: Held, until: Deadline, lane: Lane) -> Admission {
        let now = Instant::now();
        let mut table = lock(&self.table);
        table.runs += 1;
        let run = Run(table.runs);
        let hold = Hold {
            run,
            lane,
            held: Some(held),
            until,
            admitted: now,
            started: None,
            over: false,
            joined: Joined::No,
            joins: 0,
            renewal: Renewal::None,
        };
        match table.rows.entry(held.id) {
            Entry::Vacant(_) if self.releases && until.is_within(self.horizon) => {
                drop(table);
                self.release(held);
                return Admission::TooLate;
            }
            Entry::Vacant(vacant) => {
                vacant.insert(hold);
            }
            // Held for certain, and yet visible: it was settled, and only the reply is not here yet.
            Entry::Occupied(mut here) if !self.releases && !here.get().until.is_past() => {
                here.insert(hold);
            }
            Entry::Occupied(here) if self.is_stuck(here.get(), now) => {
                // Nobody here is told to look for it: this node would find it again and again.
                if !goes_by_key(&held) {
                    table.release(held);
                }
                drop(table);
                self.changed.notify_waiters();
                return Admission::Stuck;
            }
            // What goes by its key was read while a run of it was under way here: that comes to its end first.
            Entry::Occupied(_) if goes_by_key(&held) => return Admission::InFlight,
            Entry::Occupied(mut here) => {
                let here = here.get_mut();
                // A row may come late from its commit, when it was claimed here already.
                if until.is_after(&here.until) {
                    (here.held, here.until) = (Some(held), until);
                }
                return Admission::InFlight;
            }
        }
        Admission::Ticket(Ticket::new(self.clone(), held.id, run))
    }

    /// Starts a run, if the row is certainly ours now.
    pub(super) fn start(&self, id: EventId, run: Run) -> bool {
        let mut table = lock(&self.table);
        let Some(hold) = table.rows.get_mut(&id).filter(|hold| hold.run == run) else {
            return false;
        };
        // Until when a key is held is known where keys are.
        let is_certain = |held: &Held| goes_by_key(held) || !hold.until.is_past();
        if !hold.held.as_ref().is_some_and(is_certain) {
            return false;
        }
        hold.started = Some(Instant::now());
        true
    }

    /// The run is over, and its settlement is waited for, however long: it is not stuck.
    pub(super) fn end(&self, id: EventId, run: Run) {
        let mut table = lock(&self.table);
        if let Some(hold) = table.rows.get_mut(&id).filter(|hold| hold.run == run) {
            hold.over = true;
        }
    }

    pub(super) fn joined(&self, id: EventId, run: Run) -> Joined {
        let table = lock(&self.table);
        let hold = table.rows.get(&id).filter(|hold| hold.run == run);
        hold.map_or(Joined::No, |hold| hold.joined)
    }

    /// The run says that it made its effect. Answers whether it was to settle it itself.
    pub(super) fn succeeded(&self, id: EventId, run: Run) -> bool {
        let mut table = lock(&self.table);
        let joined = |hold: &&mut Hold| hold.run == run && hold.joined != Joined::No;
        let Some(hold) = table.rows.get_mut(&id).filter(joined) else { return false };
        hold.joined = Joined::Succeeded;
        true
    }

    pub(super) fn held(&self, id: EventId, run: Run) -> Option<Held> {
        self.held_until(id, run).map(|(held, _)| held)
    }

    pub(super) fn held_until(&self, id: EventId, run: Run) -> Option<(Held, Deadline)> {
        let table = lock(&self.table);
        let hold = table.rows.get(&id).filter(|hold| hold.run == run)?;
        hold.held.map(|held| (held, hold.until))
    }

    /// Ends a stay, and returns what was still held.
    pub(super) fn forget(&self, id: EventId, run: Run) -> Option<Held> {
        let mut table = lock(&self.table);
        if table.rows.get(&id).is_none_or(|hold| hold.run != run) {
            return None;
        }
        let was = table.rows.remove(&id);
        drop(table);
        self.changed.notify_waiters();
        was.and_then(|hold| hold.held)
    }

    /// The holds that end soon and should be extended, but for those whose rows are `spared`: early enough for one
    /// statement that is lost, and another one.
    pub(crate) fn ending(&self, spared: impl Fn(EventId) -> bool) -> Vec<Held> {
        let now = Instant::now();
        let early = self.horizon * 3 / 2;
        let table = lock(&self.table);
        let ending = |hold: &&Hold| {
            hold.until.is_within(early) && !self.is_stuck(hold, now) && hold.may_be_extended()
        };
        let held = table.rows.values().filter(ending).filter_map(|hold| hold.held);
        held.filter(|held| !goes_by_key(held) && !spared(held.id)).collect()
    }

    /// Whether an event is here.
    pub(crate) fn has(&self, id: EventId) -> bool {
        lock(&self.table).rows.contains_key(&id)
    }

    /// Whether the run of this event is stuck.
    pub(crate) fn has_stuck(&self, id: EventId) -> bool {
        let now = Instant::now();
        lock(&self.table).rows.get(&id).is_some_and(|hold| self.is_stuck(hold, now))
    }

    /// Whether others may have this event although its run goes on here: its hold is lost, or it is stuck.
    pub(crate) fn has_lost(&self, id: EventId) -> bool {
        let now = Instant::now();
        let lost = |hold: &Hold| !hold.over && (hold.held.is_none() || self.is_stuck(hold, now));
        lock(&self.table).rows.get(&id).is_some_and(lost)
    }

    /// The database's answer to an extension of `asked`.
    pub(crate) fn extended(&self, asked: &[Held], extended: &[Held], until: Deadline) {
        let answers: BTreeMap<_, _> = extended.iter().map(|held| (held.id, *held)).collect();
        for asked in asked {
            let answer = answers.get(&asked.id).copied();
            let mut table = lock(&self.table);
            // A claim since then may have given a newer hold; the answer is not about that one.
            match table.rows.get_mut(&asked.id).filter(|hold| hold.held == Some(*asked)) {
                Some(hold) if answer.is_some() => (hold.held, hold.until) = (answer, until),
                Some(hold) => hold.held = None,
                None => {
                    drop(table);
                    answer.into_iter().for_each(|held| self.release(held));
                }
            }
        }
    }

    /// Held by us, and no lane takes it.
    pub(crate) fn release(&self, held: Held) {
        self.release_and(held, true);
    }

    /// The same, where this node should not look for it at once: it would find it again and again.
    pub(super) fn leave_to_others(&self, held: Held) {
        self.release_and(held, false);
    }

    fn release_and(&self, held: Held, ring: bool) {
        // Nothing was written into a row that goes by its key: letting go of that is all.
        if !self.releases || goes_by_key(&held) {
            return;
        }
        let mut table = lock(&self.table);
        table.ring |= ring;
        table.release(held);
        drop(table);
        self.changed.notify_waiters();
    }

    /// Whether something was released lately that could be delivered here as well.
    pub(crate) fn rings(&self) -> bool {
        let mut table = lock(&self.table);
        let rings = table.ring;
        table.ring &= !table.released.is_empty();
        rings
    }

    /// What was released, the oldest first and at most `limit` of it.
    pub(crate) fn take_released(&self, limit: usize) -> Vec<Held> {
        let released = &mut lock(&self.table).released;
        let count = released.len().min(limit);
        released.drain(..count).collect()
    }

    /// How many events are here.
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).rows.len()
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.table).rows.is_empty()
    }

    /// Whether something was released.
    pub(crate) fn has_released(&self) -> bool {
        !lock(&self.table).released.is_empty()
    }

    /// How many were released since the last call for which there was no room.
    pub(crate) fn take_overflow(&self) -> u64 {
        std::mem::take(&mut lock(&self.table).overflow)
    }

    /// Everything still here, at the end, but for what is being settled: released or in a run that was
    /// cut off.
    pub(crate) fn take_all_but(&self, settling: &BTreeSet<EventId>) -> Vec<Held> {
        let mut table = lock(&self.table);
        let mut held: Vec<Held> = std::mem::take(&mut table.released).into();
        let over = table.rows.extract_if(.., |id, _| !settling.contains(id));
        held.extend(over.filter_map(|(_, hold)| hold.held).filter(|held| !goes_by_key(held)));
        held.retain(|held| !settling.contains(&held.id));
        held
    }

    /// How long the oldest event here has been here.
    pub(crate) fn oldest(&self) -> Duration {
        let table = lock(&self.table);
        let oldest = table.rows.values().map(|hold| hold.admitted).min();
        oldest.map(|admitted| admitted.elapsed()).unwrap_or_default()
    }

    /// Waits until something was released.
    pub(crate) async fn released(&self) {
        loop {
            let changed = self.changed.notified();
            if self.has_released() {
                return;
            }
            changed.await;
        }
    }

    /// Waits, for at most `patience`, until no event of the cold lane is held but `id`, save those
    /// that have been in work for `patience`: one that hangs must not keep the others
    /// waiting for ever. Answers whether it came to that.
    pub(crate) async fn alone(&self, id: EventId, patience: Duration) -> bool {
        let company = |(&other, hold): (&EventId, &Hold)| {
            other != id && hold.lane == Lane::Cold && is_company(hold.started, patience)
        };
        let alone = || !lock(&self.table).rows.iter().any(company);
        comes_to(&self.changed, patience, alone).await
    }

    /// Whether an event has been begun, or is no longer held.
    pub(crate) fn is_begun(&self, id: EventId) -> bool {
        lock(&self.table).rows.get(&id).is_none_or(|hold| hold.started.is_some())
    }

    /// Waits, for at most `patience`, until an event is no longer held.
    pub(crate) async fn gone(&self, id: EventId, patience: Duration) {
        let gone = || !lock(&self.table).rows.contains_key(&id);
        comes_to(&self.changed, patience, gone).await;
    }

    fn is_stuck(&self, hold: &Hold, now: Instant) -> bool {
        match (self.ttl, hold.started) {
            (Some(ttl), Some(started)) if !hold.over => now.duration_since(started) >= ttl,
            _ => false,
        }
    }
}

fn goes_by_key(held: &Held) -> bool {
    matches!(held.by, Holding::Key(_))
}
