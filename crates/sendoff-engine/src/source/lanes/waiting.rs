//! What waits: one handler's queues and runs, and how full that makes a lane.

use std::collections::VecDeque;
use std::time::Duration;

use sendoff_core::{Lane, limits};
use tokio::time::Instant;

use super::Parcel;
use super::share::{Bound, Demand, Part, Share};
use crate::appetite::Portion;
use crate::options::CircuitOptions;
use crate::sink::{Began, Circuit};
use crate::weight::weight;

/// A lane of all handlers: what is in it, and what each has to itself.
#[derive(Debug)]
pub(super) struct Fill {
    bound: Bound,
    /// How many events are in it.
    pub(super) count: usize,
    /// What is taken, or kept for somebody: of each handler what it has, or what is its own if that is
    /// more.
    spoken_for: Bound,
}

/// What one handler has in a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Has {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl Fill {
    /// Of this bound, for handlers with these parts that have so much, or for more than that where each has
    /// one place.
    pub(super) fn of(bound: Bound, handlers: impl Iterator<Item = (Part, Has)>) -> Self {
        let mut fill = Self { bound, count: 0, spoken_for: Bound { count: 0, bytes: 0 } };
        for (Part { own, .. }, has) in handlers {
            fill.count += has.count;
            fill.spoken_for.count += own.count.max(has.count);
            fill.spoken_for.bytes = fill.spoken_for.bytes.saturating_add(own.bytes.max(has.bytes));
        }
        fill
    }

    /// How much more a handler can have: what is left of its own, and what is nobody's.
    pub(super) fn room(&self, part: Part, has: Has) -> Portion {
        let room = |bound: usize, spoken_for: usize, own: usize, most: usize, has: usize| {
            let free = own.saturating_sub(has).saturating_add(bound.saturating_sub(spoken_for));
            free.min(most.saturating_sub(has))
        };
        let (bound, taken, Part { own, most }) = (self.bound, self.spoken_for, part);
        Portion {
            rows: room(bound.count, taken.count, own.count, most.count, has.count),
            bytes: room(bound.bytes, taken.bytes, own.bytes, most.bytes, has.bytes),
        }
    }

    /// A handler has so much now.
    pub(super) fn changed(&mut self, part: Part, before: Has, now: Has) {
        let own = part.own;
        self.count = self.count + now.count - before.count;
        let taken = &mut self.spoken_for;
        taken.count = taken.count + own.count.max(now.count) - own.count.max(before.count);
        taken.bytes = (taken.bytes.saturating_add(own.bytes.max(now.bytes)))
            .saturating_sub(own.bytes.max(before.bytes));
    }
}

/// Events in the order in which they came.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) part: Part,
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    parcel: Parcel,
    /// Its place among all that came, for whichever handler.
    place: u64,
    since: Instant,
    /// What its handler's cold queue had given away by then.
    cold_drawn: usize,
}

impl Queue {
    fn new(part: Part) -> Self {
        Self { part, waiting: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, waiting: Waiting) {
        self.bytes = self.bytes.saturating_add(weight(&waiting.parcel.delivery.event));
        self.waiting.push_back(waiting);
    }

    fn push_first(&mut self, waiting: Waiting) {
        self.bytes = self.bytes.saturating_add(weight(&waiting.parcel.delivery.event));
        self.waiting.push_front(waiting);
    }

    fn pop(&mut self) -> Option<Parcel> {
        let parcel = self.waiting.pop_front()?.parcel;
        self.bytes = self.bytes.saturating_sub(weight(&parcel.delivery.event));
        Some(parcel)
    }

    /// How many have waited for `limit` or longer.
    fn overdue(&self, limit: Duration) -> usize {
        let now = Instant::now();
        let overdue = |waiting: &&Waiting| now.duration_since(waiting.since) >= limit;
        self.waiting.iter().take_while(overdue).count()
    }

    pub(super) fn has(&self) -> Has {
        Has { count: self.waiting.len(), bytes: self.bytes }
    }
}

/// One handler: what waits for it, and its runs.
#[derive(Debug)]
pub(super) struct HandlerQueue {
    most_runs: usize,
    /// How many events it takes in one run.
    batch: usize,
    hot: Queue,
    cold: Queue,
    /// How many its cold queue takes now: fewer than it could while its events wait too long, so that
    /// this node does not keep from others what it cannot begin in time.
    cold_limit: usize,
    /// And no fewer than this.
    least_limit: usize,
    /// Events that workers took from its cold queue so far.
    cold_drawn: usize,
    /// Its runs by number, and since when each goes on.
    runs: Vec<(u64, Instant)>,
    /// Whether its target is there.
    pub(super) circuit: Circuit,
    /// Whether all its runs are stuck: nothing is taken for it until one of them ends.
    is_paused: bool,
    /// Whether an operator paused it: nothing is taken for it.
    pub(super) is_off: bool,
    /// Whether it was removed: nothing is taken for it, and it has no part of a lane.
    is_gone: bool,
}

impl HandlerQueue {
    /// One of this demand; without, it is gone already.
    pub(super) fn new(share: Share, demand: Option<Demand>, circuit: CircuitOptions) -> Self {
        let mut queue = Self {
            most_runs: share.runs,
            batch: 1,
            hot: Queue::new(share.hot),
            cold: Queue::new(share.cold),
            cold_limit: share.cold.most.count,
            least_limit: 1,
            cold_drawn: 0,
            runs: Vec::new(),
            circuit: Circuit::new(circuit),
            is_paused: false,
            is_off: false,
            is_gone: true,
        };
        queue.reshape(share, demand, circuit);
        queue
    }

    /// Has this share from now on, or is gone.
    pub(super) fn reshape(
        &mut self,
        share: Share,
        demand: Option<Demand>,
        circuit: CircuitOptions,
    ) {
        let Some(demand) = demand else {
            let nothing = Bound { count: 0, bytes: 0 };
            let part = Part { own: nothing, most: nothing };
            (self.hot.part, self.cold.part, self.is_gone) = (part, part, true);
            return;
        };
        let is_slow = !self.is_gone && self.cold_limit < self.cold.part.most.count;
        if std::mem::take(&mut self.is_gone) {
            // What was known of the target of the one before is not about this one's.
            self.circuit = Circuit::new(circuit);
        }
        let most = share.cold.most.count;
        self.cold_limit = if is_slow { self.cold_limit.min(most) } else { most };
        self.most_runs = share.runs;
        self.batch = demand.batch.clamp(1, limits::BATCH_ROWS);
        (self.hot.part, self.cold.part) = (share.hot, share.cold);
    }

    /// The same for what nobody handles.
    pub(super) fn reshape_nobody(&mut self, share: Share) {
        self.least_limit = share.cold.most.count;
        self.reshape(share, Some(Demand::ANY), CircuitOptions::off());
    }

    /// Whether it was removed.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// What nobody handles, where somebody handles anything: no claim can leave it out, so it takes as
    /// many as it ever does.
    pub(super) fn of_nobody(share: Share) -> Self {
        // It has no target.
        let nobody = Self::new(share, Some(Demand::ANY), CircuitOptions::off());
        Self { least_limit: share.cold.most.count, ..nobody }
    }

    pub(super) fn queue(&self, lane: Lane) -> &Queue {
        match lane {
            Lane::Hot => &self.hot,
            Lane::Cold => &self.cold,
        }
    }

    fn queue_mut(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Hot => &mut self.hot,
            Lane::Cold => &mut self.cold,
        }
    }

    pub(super) fn push(&mut self, lane: Lane, parcel: Parcel, place: u64) {
        let waiting = Waiting { parcel, place, since: Instant::now(), cold_drawn: self.cold_drawn };
        self.queue_mut(lane).push(waiting);
    }

    /// Puts a parcel before all others that wait.
    pub(super) fn push_first(&mut self, lane: Lane, parcel: Parcel) {
        let (since, cold_drawn) = (Instant::now(), self.cold_drawn);
        self.queue_mut(lane).push_first(Waiting { parcel, place: 0, since, cold_drawn });
    }

    /// The place of the first event, if a run of it could begin now.
    pub(super) fn ready(&self, lane: Lane) -> Option<u64> {
        let first = self.queue(lane).waiting.front()?;
        self.is_free().then_some(first.place)
    }

    /// Whether another run of it may begin.
    pub(super) fn is_free(&self) -> bool {
        self.runs.len() < self.most_runs && self.circuit.lets_begin(Instant::now())
    }

    /// Whether it takes nothing: an operator paused it, it was removed, all its runs are stuck, or its target is
    /// unavailable. When that may be back, it takes one event to find out.
    pub(super) fn is_shut(&self) -> bool {
        self.is_off
            || self.is_gone
            || self.is_paused
            || (self.circuit.is_open() && !self.may_probe())
    }

    fn may_probe(&self) -> bool {
        self.hot.waiting.is_empty() && self.cold.waiting.is_empty() && self.is_free()
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The first events of a queue, as many as it takes at once, for a run of this number.
    pub(super) fn draw(&mut self, lane: Lane, run: u64) -> Option<(Parcel, Vec<Parcel>, Began)> {
        let batch = if self.circuit.is_open() { 1 } else { self.batch };
        let queue = self.queue_mut(lane);
        let first = queue.pop()?;
        // Nothing is allocated where it takes one at a time, or one is all there is.
        let rest: Vec<_> = (1..batch).map_while(|_| queue.pop()).collect();
        let now = Instant::now();
        self.runs.push((run, now));
        if lane == Lane::Cold {
            self.cold_drawn += 1 + rest.len();
            if self.cold.waiting.is_empty() {
                self.cold_limit = (self.cold_limit * 2).min(self.cold.part.most.count);
            }
        }
        Some((first, rest, self.circuit.begin(now)))
    }

    /// A run is over. Answers whether something is taken for the handler from now on, and was not before.
    pub(super) fn end(&mut self, run: u64) -> bool {
        if let Some(at) = self.runs.iter().position(|(number, _)| *number == run) {
            self.runs.swap_remove(at);
        }
        std::mem::take(&mut self.is_paused)
    }

    /// Takes out what has waited for `limit` or longer. From then on its cold queue takes no more than
    /// its workers began in that time.
    pub(super) fn take_overdue(&mut self, limit: Duration, out: &mut Vec<Parcel>) {
        let (hot, cold) = (self.hot.overdue(limit), self.cold.overdue(limit));
        if let Some(first) = self.cold.waiting.front().filter(|_| cold > 0) {
            self.cold_limit = (self.cold_drawn - first.cold_drawn).max(self.least_limit);
        }
        self.take_out(hot, cold, out);
    }

    /// Takes out all that waits.
    pub(super) fn take_all(&mut self, out: &mut Vec<Parcel>) {
        self.take_out(usize::MAX, usize::MAX, out);
    }

    /// Takes out what is meant.
    pub(super) fn take_meant(&mut self, is_meant: impl Fn(&Parcel) -> bool, out: &mut Vec<Parcel>) {
        for queue in [&mut self.hot, &mut self.cold] {
            for waiting in std::mem::take(&mut queue.waiting) {
                if is_meant(&waiting.parcel) {
                    let weight = weight(&waiting.parcel.delivery.event);
                    queue.bytes = queue.bytes.saturating_sub(weight);
                    out.push(waiting.parcel);
                } else {
                    queue.waiting.push_back(waiting);
                }
            }
        }
    }

    /// Takes out what waits in its cold queue.
    pub(super) fn take_cold(&mut self, out: &mut Vec<Parcel>) {
        self.take_out(0, usize::MAX, out);
    }

    fn take_out(&mut self, hot: usize, cold: usize, out: &mut Vec<Parcel>) {
        out.extend((0..hot).map_while(|_| self.hot.pop()));
        out.extend((0..cold).map_while(|_| self.cold.pop()));
    }

    /// Whether it has as many runs as it may have, and all of them for `limit` or longer.
    pub(super) fn is_stuck(&self, limit: Duration) -> bool {
        self.runs.len() >= self.most_runs && self.stuck(limit) == self.runs.len()
    }

    /// How many of its runs go on for `limit` or longer.
    pub(super) fn stuck(&self, limit: Duration) -> usize {
        self.runs.iter().filter(|(_, since)| since.elapsed() >= limit).count()
    }

    /// Takes nothing from now on. Says whether that is new.
    pub(super) fn pause(&mut self) -> bool {
        !std::mem::replace(&mut self.is_paused, true)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn cold_limit(&self) -> usize {
        if self.circuit.is_open() { 1 } else { self.cold_limit }
    }

    /// Whether its events waited too long lately, or its target is unavailable, so that it takes fewer
    /// than it could.
    pub(super) fn is_slow(&self) -> bool {
        self.cold_limit() < self.cold.part.most.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound { count: 10, bytes: 100 };
    const PART: Part =
        Part { own: Bound { count: 2, bytes: 20 }, most: Bound { count: 5, bytes: 50 } };

    fn has(count: usize) -> Has {
        Has { count, bytes: count * 10 }
    }

    fn rows(count: usize) -> Portion {
        Portion { rows: count, bytes: count * 10 }
    }

    /// Holds D8: whatever the others have.
    #[test]
    fn what_is_a_handlers_own_is_left_to_it_and_the_rest_is_for_whoever_comes_first() {
        let mut lane = Fill::of(BOUND, std::iter::repeat_n((PART, has(0)), 4));
        assert_eq!(lane.room(PART, has(0)), rows(4), "its own two, and two of nobody");
        lane.changed(PART, has(0), has(4));
        assert_eq!(lane.room(PART, has(4)), rows(0), "the others' own stays free");
        assert_eq!((lane.room(PART, has(0)), lane.count), (rows(2), 4));
        lane.changed(PART, has(4), has(3));
        assert_eq!((lane.room(PART, has(0)), lane.room(PART, has(3))), (rows(3), rows(1)));
    }

    #[test]
    fn one_that_is_larger_than_all_takes_nothing_from_what_is_anothers_own() {
        let mut lane = Fill::of(BOUND, std::iter::repeat_n((PART, has(0)), 2));
        lane.changed(PART, has(0), Has { count: 1, bytes: 1_000 });
        assert_eq!(lane.room(PART, Has { count: 1, bytes: 1_000 }).bytes, 0);
        assert_eq!(lane.room(PART, has(0)).bytes, 20);
        lane.changed(PART, Has { count: 1, bytes: 1_000 }, has(0));
        assert_eq!(lane.room(PART, has(0)), rows(5));
    }
}
