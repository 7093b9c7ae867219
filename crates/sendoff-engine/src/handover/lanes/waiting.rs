//! Events that wait for one handler.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sendoff_core::Lane;
use tokio::time::Instant;

use super::{Bound, Parcel, Quota};
use crate::appetite::Portion;
use crate::weight::weight;

/// Events in the order in which they came, and their bytes.
#[derive(Debug, Default)]
pub(super) struct Queue {
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
    fn push(&mut self, waiting: Waiting) {
        self.bytes = self.bytes.saturating_add(weight(&waiting.parcel.delivery.event));
        self.waiting.push_back(waiting);
    }

    fn pop(&mut self) -> Option<Parcel> {
        let parcel = self.waiting.pop_front()?.parcel;
        self.bytes = self.bytes.saturating_sub(weight(&parcel.delivery.event));
        Some(parcel)
    }

    /// The place of the first one.
    fn first(&self) -> Option<u64> {
        self.waiting.front().map(|waiting| waiting.place)
    }

    /// How many have waited for `limit` or longer.
    fn overdue(&self, limit: Duration) -> usize {
        let now = Instant::now();
        let overdue = |waiting: &&Waiting| now.duration_since(waiting.since) >= limit;
        self.waiting.iter().take_while(overdue).count()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// One handler: what waits for it, and its runs.
#[derive(Debug)]
pub(super) struct HandlerQueue {
    quota: Quota,
    hot: Queue,
    cold: Queue,
    /// How many its cold queue takes now: fewer than it could while its events wait too long, so that
    /// this node does not keep from others what it cannot begin in time.
    cold_limit: usize,
    /// Events that workers took from its cold queue so far.
    cold_drawn: usize,
    /// Its runs, and since when each goes on.
    runs: BTreeMap<u64, Instant>,
    /// Whether all its runs are stuck: nothing is taken for it until one of them ends.
    paused: bool,
}

impl HandlerQueue {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            hot: Queue::default(),
            cold: Queue::default(),
            cold_limit: quota.cold.count,
            cold_drawn: 0,
            runs: BTreeMap::new(),
            paused: false,
        }
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

    /// Whether it takes one more into its queue.
    pub(super) fn takes(&self, lane: Lane) -> bool {
        let (queue, bound) = match lane {
            Lane::Hot => (&self.hot, self.quota.hot),
            Lane::Cold => (&self.cold, Bound { count: self.cold_limit, ..self.quota.cold }),
        };
        !self.paused && bound.takes(queue.len(), queue.bytes())
    }

    pub(super) fn push(&mut self, parcel: Parcel, place: u64) {
        let (since, cold_drawn) = (Instant::now(), self.cold_drawn);
        let lane = parcel.delivery.lane;
        self.queue_mut(lane).push(Waiting { parcel, place, since, cold_drawn });
    }

    /// The place of the first event that could be begun now.
    pub(super) fn ready(&self, lane: Lane) -> Option<u64> {
        self.is_free().then(|| self.queue(lane).first()).flatten()
    }

    /// Whether another run of it may begin.
    pub(super) fn is_free(&self) -> bool {
        self.runs.len() < self.quota.workers
    }

    /// Whether something waits for it.
    pub(super) fn is_empty(&self) -> bool {
        self.hot.len() + self.cold.len() == 0
    }

    /// The first event of a queue, for a run of this number.
    pub(super) fn draw(&mut self, lane: Lane, run: u64) -> Option<Parcel> {
        let parcel = self.queue_mut(lane).pop()?;
        self.runs.insert(run, Instant::now());
        if lane == Lane::Cold {
            self.cold_drawn += 1;
            if self.cold.len() == 0 {
                self.cold_limit = (self.cold_limit * 2).min(self.quota.cold.count);
            }
        }
        Some(parcel)
    }

    pub(super) fn end(&mut self, run: u64) {
        self.runs.remove(&run);
        self.paused = false;
    }

    /// Takes out what has waited for `limit` or longer. From then on its cold queue takes no more than
    /// its workers began in that time.
    pub(super) fn take_overdue(&mut self, limit: Duration) -> Vec<Parcel> {
        let (hot, cold) = (self.hot.overdue(limit), self.cold.overdue(limit));
        if let Some(first) = self.cold.waiting.front().filter(|_| cold > 0) {
            self.cold_limit = (self.cold_drawn - first.cold_drawn).max(1);
        }
        self.take_out(hot, cold)
    }

    /// Takes out all that waits.
    pub(super) fn take_all(&mut self) -> Vec<Parcel> {
        self.take_out(self.hot.len(), self.cold.len())
    }

    /// Takes out what waits in its cold queue.
    pub(super) fn take_cold(&mut self) -> Vec<Parcel> {
        self.take_out(0, self.cold.len())
    }

    fn take_out(&mut self, hot: usize, cold: usize) -> Vec<Parcel> {
        let mut out = Vec::with_capacity(hot + cold);
        out.extend((0..hot).map_while(|_| self.hot.pop()));
        out.extend((0..cold).map_while(|_| self.cold.pop()));
        out
    }

    /// Whether it has as many runs as it may have, and all of them for `limit` or longer.
    pub(super) fn is_stuck(&self, limit: Duration) -> bool {
        !self.is_free() && self.stuck(limit) == self.runs.len()
    }

    /// How many of its runs go on for `limit` or longer.
    pub(super) fn stuck(&self, limit: Duration) -> usize {
        self.runs.values().filter(|since| since.elapsed() >= limit).count()
    }

    /// Takes nothing from now on. Says whether that is new.
    pub(super) fn pause(&mut self) -> bool {
        !std::mem::replace(&mut self.paused, true)
    }

    /// How many more its cold queue takes, if a claim of `portion` is worth it: not for each place that
    /// becomes free.
    pub(super) fn wants(&self, portion: Portion) -> Option<Wish> {
        let room = self.cold_limit.saturating_sub(self.cold.len());
        let bytes = self.quota.cold.bytes.saturating_sub(self.cold.bytes());
        let wants = !self.paused
            && room >= portion.rows.min(self.cold_limit)
            && bytes >= portion.bytes.min(self.quota.cold.bytes / 2);
        wants.then_some(Wish { room, is_whole: self.cold_limit == self.quota.cold.count })
    }

    pub(super) fn cold_limit(&self) -> usize {
        self.cold_limit
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }
}

/// What a handler would take of a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) room: usize,
    /// Whether its queue takes as many as it ever does.
    pub(super) is_whole: bool,
}
