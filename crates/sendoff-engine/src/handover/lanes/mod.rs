//! The hot and the cold lane: what came in and waits for a worker.

mod quota;
mod waiting;

use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, Lane};
use tokio::sync::Notify;
use tracing::info;

use super::Ticket;
use crate::appetite::Portion;
use crate::dispatch::Route;
use crate::lock::lock;

use self::waiting::HandlerQueue;

pub(crate) use quota::{Bound, Quota};

/// An event on its way to a worker.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) delivery: Delivery,
    pub(crate) attempt: Attempt,
    pub(crate) ticket: Ticket,
    /// Who handles it.
    pub(crate) route: Route,
    /// How old the row was when it came here, by the database's clock.
    pub(crate) age: Duration,
    /// Over which links it was last known to be held.
    pub(crate) epoch: u64,
}

/// How full the lanes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneDepths {
    /// Events waiting right after their commit.
    pub hot: usize,
    /// Events waiting after a claim.
    pub cold: usize,
}

/// The hot and the cold lane: both bounded, drawn 2:1, with one wake-up over both. Each handler has a
/// queue and a part of the workers of its own, so that one which hangs or is slow keeps none of the
/// others waiting.
#[derive(Debug)]
pub(crate) struct Lanes {
    queues: Mutex<Queues>,
    all: Quota,
    /// A worker may find something.
    work: Notify,
    /// The cold lane gave one away.
    room: Notify,
}

#[derive(Debug)]
struct Queues {
    /// By [`Route::number`]: what nobody handles, then each handler.
    handlers: Vec<HandlerQueue>,
    places: u64,
    runs: u64,
    turn: u8,
    /// Every worker is stuck: nothing is taken until one of them asks for work.
    paused: bool,
    closed: bool,
}

/// A parcel that a worker has, and the run it is for.
#[derive(Debug)]
pub(crate) struct Drawn<'l> {
    pub(crate) parcel: Parcel,
    pub(crate) run: Run<'l>,
}

/// One of the runs that a handler may have at once, until it is dropped.
#[derive(Debug)]
pub(crate) struct Run<'l> {
    lanes: &'l Lanes,
    route: Route,
    number: u64,
}

/// The lane to draw from at this turn: twice hot, once cold, and never an empty one while the other
/// has work.
fn next_lane(turn: u8, hot: bool, cold: bool) -> Option<Lane> {
    match (hot, cold) {
        (false, false) => None,
        (true, false) => Some(Lane::Hot),
        (false, true) => Some(Lane::Cold),
        (true, true) if turn % 3 == 2 => Some(Lane::Cold),
        (true, true) => Some(Lane::Hot),
    }
}

impl Queues {
    fn is_open(&self) -> bool {
        !self.closed && !self.paused
    }

    fn is_empty(&self) -> bool {
        self.handlers.iter().all(HandlerQueue::is_empty)
    }

    fn len(&self, lane: Lane) -> usize {
        self.handlers.iter().map(|handler| handler.queue(lane).len()).sum()
    }

    fn bytes(&self, lane: Lane) -> usize {
        let bytes = self.handlers.iter().map(|handler| handler.queue(lane).bytes());
        bytes.fold(0, usize::saturating_add)
    }

    /// The handler whose first event in this lane came first, among those that may begin one.
    fn first(&self, lane: Lane) -> Option<usize> {
        let ready =
            |(number, handler): (usize, &HandlerQueue)| Some((handler.ready(lane)?, number));
        self.handlers.iter().enumerate().filter_map(ready).min().map(|(_, number)| number)
    }

    fn draw(&mut self) -> Option<(Parcel, u64)> {
        let (hot, cold) = (self.first(Lane::Hot), self.first(Lane::Cold));
        let lane = next_lane(self.turn, hot.is_some(), cold.is_some())?;
        self.turn = (self.turn + 1) % 3;
        let number = match lane {
            Lane::Hot => hot?,
            Lane::Cold => cold?,
        };
        self.runs += 1;
        let parcel = self.handlers[number].draw(lane, self.runs)?;
        Some((parcel, self.runs))
    }

    /// The handlers. What nobody handles is over at once and asks for nothing, unless there is nothing
    /// else.
    fn asking(&self) -> impl Iterator<Item = (usize, &HandlerQueue)> {
        let nobody = usize::from(self.handlers.len() > 1);
        self.handlers.iter().enumerate().skip(nobody)
    }

    /// How many events the cold lane takes at most, now.
    fn cold_limit(&self, all: Bound) -> usize {
        let limits = self.asking().map(|(_, handler)| handler.cold_limit());
        limits.fold(0, usize::saturating_add).min(all.count)
    }

    /// How much the cold lane can still take.
    fn cold_room(&self, all: Bound) -> Portion {
        if !self.is_open() {
            return Portion { rows: 0, bytes: 0 };
        }
        Portion {
            rows: self.cold_limit(all).saturating_sub(self.len(Lane::Cold)),
            bytes: all.bytes.saturating_sub(self.bytes(Lane::Cold)),
        }
    }

    fn wanted(&self, portion: Portion, all: Bound) -> Option<Wanted> {
        let portion = Portion {
            rows: portion.rows.min(self.cold_limit(all)),
            bytes: portion.bytes.min(all.bytes),
        };
        if !self.is_open() || !self.cold_room(all).covers(portion) {
            return None;
        }
        let (mut except, mut wishes) = (Vec::new(), Vec::new());
        for (number, handler) in self.asking() {
            match handler.wants(portion) {
                Some(wish) => wishes.push(wish),
                None => except.push(Route::of_number(number)),
            }
        }
        // So few that none of them has to be given back, whosever they are; but one whose events wait
        // too long, and which therefore takes few, does not make few of all.
        let whole = wishes.iter().filter(|wish| wish.is_whole).map(|wish| wish.room).min();
        let most = whole.or_else(|| wishes.iter().map(|wish| wish.room).max())?;
        let rows = portion.rows.min(most);
        Some(Wanted { portion: Portion { rows, ..portion }, except })
    }
}

impl Lanes {
    /// For handlers with limits of their own, or without.
    pub(crate) fn new(all: Quota, limits: &[Option<usize>]) -> Self {
        let shares = limits.iter().map(|limit| all.share(limits.len(), *limit));
        let queues = Queues {
            handlers: std::iter::once(all).chain(shares).map(HandlerQueue::new).collect(),
            places: 0,
            runs: 0,
            turn: 0,
            paused: false,
            closed: false,
        };
        Self { queues: Mutex::new(queues), all, work: Notify::new(), room: Notify::new() }
    }

    /// Puts a parcel into its lane; gives it back if the lane, or its handler's part of it, is full or
    /// takes nothing.
    pub(crate) fn offer(&self, parcel: Parcel) -> Result<(), Parcel> {
        let mut queues = lock(&self.queues);
        let lane = parcel.delivery.lane;
        let bound = match lane {
            Lane::Hot => self.all.hot,
            Lane::Cold => self.all.cold,
        };
        if !queues.is_open() || !bound.takes(queues.len(lane), queues.bytes(lane)) {
            return Err(parcel);
        }
        let place = queues.places;
        let handler = &mut queues.handlers[parcel.route.number()];
        if !handler.takes(lane) {
            return Err(parcel);
        }
        handler.push(parcel, place);
        let ready = handler.is_free();
        queues.places += 1;
        drop(queues);
        if ready {
            self.work.notify_one();
        }
        Ok(())
    }

    /// The next parcel, or `None` once the lanes are closed and empty. Cancel-safe: a parcel leaves
    /// its lane only in the last step.
    pub(crate) async fn take(&self) -> Option<Drawn<'_>> {
        self.resume();
        loop {
            // Before the look: what comes after it is not missed.
            let work = self.work.notified();
            let mut work = std::pin::pin!(work);
            work.as_mut().enable();
            if let Some(taken) = self.look() {
                return taken;
            }
            work.await;
        }
    }

    /// What there is for a worker now: a parcel, or the end; nothing if it has to wait.
    fn look(&self) -> Option<Option<Drawn<'_>>> {
        let mut queues = lock(&self.queues);
        let drawn = queues.draw();
        let over = queues.closed && queues.is_empty();
        drop(queues);
        if over {
            // Whoever waits has nothing to wait for any more.
            self.work.notify_waiters();
        }
        match drawn {
            Some((parcel, number)) => {
                if parcel.delivery.lane == Lane::Cold {
                    self.room.notify_waiters();
                }
                let run = Run { lanes: self, route: parcel.route, number };
                Some(Some(Drawn { parcel, run }))
            }
            None if over => Some(None),
            None => None,
        }
    }

    /// Takes out what has waited for a worker for `limit` or longer, and all that waits for a handler
    /// whose runs are all stuck for as long. Nothing is taken for such a handler until a run of it ends.
    pub(crate) fn take_overdue(&self, limit: Duration) -> Overdue {
        let mut out = Overdue::default();
        for (number, handler) in lock(&self.queues).handlers.iter_mut().enumerate() {
            if handler.is_stuck(limit) && handler.pause() {
                out.stuck.push(Route::of_number(number));
                out.parcels.extend(handler.take_all());
            }
            out.parcels.extend(handler.take_overdue(limit));
        }
        if !out.parcels.is_empty() {
            self.room.notify_waiters();
        }
        out
    }

    /// If every worker has been in one handler for `limit` or longer: takes everything out, and takes
    /// nothing in until a worker asks for work. None if it is so already.
    pub(crate) fn pause_if_stuck(&self, limit: Duration) -> Option<Vec<Parcel>> {
        let mut queues = lock(&self.queues);
        let stuck: usize = queues.handlers.iter().map(|handler| handler.stuck(limit)).sum();
        if !queues.is_open() || stuck < self.all.workers {
            return None;
        }
        queues.paused = true;
        let out = queues.handlers.iter_mut().flat_map(HandlerQueue::take_all).collect();
        drop(queues);
        self.room.notify_waiters();
        Some(out)
    }

    /// Takes back what still waits in the cold lane.
    pub(crate) fn recall_cold(&self) -> Vec<Parcel> {
        let mut queues = lock(&self.queues);
        let out = queues.handlers.iter_mut().flat_map(HandlerQueue::take_cold).collect();
        drop(queues);
        self.room.notify_waiters();
        out
    }

    /// A worker is free.
    fn resume(&self) {
        let mut queues = lock(&self.queues);
        if std::mem::take(&mut queues.paused) {
            drop(queues);
            info!("a worker is free again: events are taken");
            self.room.notify_waiters();
        }
    }

    /// What to claim now of a portion; nothing while there is no room for it.
    pub(crate) fn wanted(&self, portion: Portion) -> Option<Wanted> {
        lock(&self.queues).wanted(portion, self.all.cold)
    }

    /// Handlers all of whose runs are stuck.
    pub(crate) fn stuck(&self) -> Vec<Route> {
        let queues = lock(&self.queues);
        let stuck = queues.handlers.iter().enumerate().filter(|(_, handler)| handler.is_paused());
        stuck.map(|(number, _)| Route::of_number(number)).collect()
    }

    /// Waits until there is room for a portion.
    pub(crate) async fn room_for(&self, portion: Portion) {
        self.until(|queues| queues.wanted(portion, self.all.cold).is_some()).await;
    }

    /// Waits until a portion is wanted for one of these handlers.
    pub(crate) async fn wanted_again(&self, except: &[Route], portion: Portion) {
        self.until(|queues| {
            let wants = |route: &Route| queues.handlers[route.number()].wants(portion).is_some();
            queues.is_open() && except.iter().any(wants)
        })
        .await;
    }

    async fn until(&self, reached: impl Fn(&Queues) -> bool) {
        loop {
            let changed = self.room.notified();
            if reached(&lock(&self.queues)) {
                return;
            }
            changed.await;
        }
    }

    /// Takes nothing new from now on; what is in the lanes can still be drawn.
    pub(crate) fn close(&self) {
        lock(&self.queues).closed = true;
        self.work.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.queues).closed
    }

    /// Whether it takes anything: it is not closed, and not every worker is stuck.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.queues).is_open()
    }

    pub(crate) fn depths(&self) -> LaneDepths {
        let queues = lock(&self.queues);
        LaneDepths { hot: queues.len(Lane::Hot), cold: queues.len(Lane::Cold) }
    }
}

/// What to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) portion: Portion,
    /// Nothing for these handlers: their part of the lane is full, or all their runs are stuck.
    pub(crate) except: Vec<Route>,
}

/// What was taken out because it waited too long.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    pub(crate) parcels: Vec<Parcel>,
    /// Handlers for which nothing is taken from now on.
    pub(crate) stuck: Vec<Route>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.lanes.queues);
        let handler = &mut queues.handlers[self.route.number()];
        let was_paused = handler.is_paused();
        handler.end(self.number);
        let waits = !handler.is_empty();
        drop(queues);
        if waits {
            self.lanes.work.notify_one();
        }
        if was_paused {
            self.lanes.room.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
