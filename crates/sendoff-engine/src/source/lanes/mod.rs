//! The hot and the cold lane: what came in and waits for a worker.

mod paused;
mod reshape;
mod share;
mod waiting;
mod want;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, EventId, FailureClass, Lane, Paused, Waited};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, info};

use self::waiting::{Fill, HandlerQueue};
use super::Ticket;
use crate::appetite::Portion;
use crate::dispatch::Route;
use crate::lock::lock;
use crate::options::CircuitOptions;
use crate::sink::{Began, Learned};

pub(crate) use self::share::{Bound, Capacity, Demand};
pub(crate) use self::want::{Speed, Wanted};

/// An event on its way to a worker.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) delivery: Delivery,
    pub(crate) attempt: Attempt,
    pub(crate) ticket: Ticket,
    /// Who handles it.
    pub(crate) route: Route,
    /// For how long it had waited when it came here, if it had: few have.
    pub(crate) waited: Option<Box<Waited>>,
    /// Over which links it was last known to be held.
    pub(crate) epoch: u64,
}

impl Parcel {
    /// For how long it had waited when it came here.
    pub(crate) fn waited(&self) -> Waited {
        self.waited.as_deref().copied().unwrap_or_default()
    }

    fn lane(&self) -> Lane {
        self.delivery.lane().unwrap_or(Lane::Cold)
    }
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
/// queue, runs and a part of each lane of its own, so that one which hangs or is slow keeps none of the
/// others waiting.
#[derive(Debug)]
pub(crate) struct Lanes {
    queues: Mutex<Queues>,
    all: Capacity,
    circuit: CircuitOptions,
    /// A worker may find something. One for each offer that can be begun; a worker whose run ended looks
    /// for itself.
    work: Notify,
    /// The cold lane has more room than before.
    room: Notify,
}

#[derive(Debug)]
struct Queues {
    /// By [`Route::number`]: what nobody handles, then each handler.
    handlers: Vec<HandlerQueue>,
    hot: Fill,
    cold: Fill,
    places: u64,
    runs: u64,
    turn: u8,
    /// Every worker is stuck: nothing is taken until one of them asks for work.
    paused: bool,
    /// Somebody waits until nothing of the cold lane is held: nothing is put back into it.
    clearing: bool,
    closed: bool,
    /// What operators paused.
    off: Arc<Paused>,
}

/// What a worker drew: events of one handler, and the run they are for.
#[derive(Debug)]
pub(crate) struct Drawn<'l> {
    pub(crate) first: Parcel,
    /// What else its handler takes at once.
    pub(crate) rest: Vec<Parcel>,
    pub(crate) run: Run<'l>,
}

/// One of the runs that a handler may have at once, until it is dropped.
#[derive(Debug)]
pub(crate) struct Run<'l> {
    lanes: &'l Lanes,
    route: Route,
    number: u64,
    began: Began,
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
        self.hot.count + self.cold.count == 0
    }

    fn fill(&self, lane: Lane) -> &Fill {
        match lane {
            Lane::Hot => &self.hot,
            Lane::Cold => &self.cold,
        }
    }

    /// How much more of a lane a handler can have.
    fn room(&self, handler: &HandlerQueue, lane: Lane) -> Portion {
        if !self.is_open() || handler.is_shut() {
            return Portion { rows: 0, bytes: 0 };
        }
        let queue = handler.queue(lane);
        let room = self.fill(lane).room(queue.part, queue.has());
        match lane {
            Lane::Hot if handler.circuit.is_open() => Portion { rows: room.rows.min(1), ..room },
            Lane::Hot => room,
            Lane::Cold => {
                let left = handler.cold_limit().saturating_sub(queue.has().count);
                Portion { rows: room.rows.min(left), ..room }
            }
        }
    }

    /// The one way to change what waits for a handler, so that the lanes know how full they are.
    fn change<T>(&mut self, number: usize, change: impl FnOnce(&mut HandlerQueue) -> T) -> T {
        let handler = &mut self.handlers[number];
        let (hot, cold) = (handler.queue(Lane::Hot).has(), handler.queue(Lane::Cold).has());
        let answer = change(handler);
        for (fill, lane, before) in
            [(&mut self.hot, Lane::Hot, hot), (&mut self.cold, Lane::Cold, cold)]
        {
            let queue = handler.queue(lane);
            if queue.has() != before {
                fill.changed(queue.part, before, queue.has());
            }
        }
        answer
    }

    /// Of the handlers that may begin a run of an event in this lane, the one with the fewest runs; and
    /// of these, the one whose event came first.
    fn next(&self, lane: Lane) -> Option<usize> {
        let ready = |(number, handler): (usize, &HandlerQueue)| {
            Some((handler.runs(), handler.ready(lane)?, number))
        };
        self.handlers.iter().enumerate().filter_map(ready).min().map(|(.., number)| number)
    }

    fn draw(&mut self) -> Option<(Parcel, Vec<Parcel>, u64, Began)> {
        let (hot, cold) = (self.next(Lane::Hot), self.next(Lane::Cold));
        let lane = next_lane(self.turn, hot.is_some(), cold.is_some())?;
        self.turn = (self.turn + 1) % 3;
        let number = match lane {
            Lane::Hot => hot?,
            Lane::Cold => cold?,
        };
        self.runs += 1;
        let run = self.runs;
        let (first, rest, began) = self.change(number, |handler| handler.draw(lane, run))?;
        Some((first, rest, run, began))
    }

    /// What `take` takes out of each handler's queues.
    fn take_out(
        &mut self,
        mut take: impl FnMut(&mut HandlerQueue, &mut Vec<Parcel>),
    ) -> Vec<Parcel> {
        let mut out = Vec::new();
        for number in 0..self.handlers.len() {
            self.change(number, |handler| take(handler, &mut out));
        }
        out
    }
}

impl Lanes {
    /// For handlers with these demands.
    pub(crate) fn new(all: Capacity, demands: &[Option<Demand>], circuit: CircuitOptions) -> Self {
        let nobody = HandlerQueue::of_nobody(all.share(0));
        let queues = Queues {
            hot: Fill::of(all.hot, std::iter::empty()),
            cold: Fill::of(all.cold, std::iter::empty()),
            handlers: vec![nobody],
            places: 0,
            runs: 0,
            turn: 0,
            paused: false,
            clearing: false,
            closed: false,
            off: Arc::default(),
        };
        let (queues, work, room) = (Mutex::new(queues), Notify::new(), Notify::new());
        let lanes = Self { queues, all, circuit, work, room };
        lanes.reshape(demands);
        lanes
    }

    /// Puts a parcel into its lane; gives it back if the lane has no room for its handler, or takes
    /// nothing.
    pub(crate) fn offer(&self, parcel: Parcel) -> Result<(), Parcel> {
        let (lane, number) = (parcel.lane(), parcel.route.number());
        let mut queues = lock(&self.queues);
        let room = queues.room(&queues.handlers[number], lane);
        if room.rows == 0 || room.bytes == 0 || queues.is_off(&parcel) {
            return Err(parcel);
        }
        // From 1 on: what is put back goes before all others.
        queues.places += 1;
        let place = queues.places;
        let is_ready = queues.change(number, |handler| {
            handler.push(lane, parcel, place);
            handler.is_free()
        });
        drop(queues);
        if is_ready {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Puts a parcel into its lane that follows one which has left it, whether there is room or not; gives it
    /// back while nothing is taken for its handler.
    pub(crate) fn offer_next(&self, parcel: Parcel) -> Result<(), Parcel> {
        let (lane, number) = (parcel.lane(), parcel.route.number());
        let mut queues = lock(&self.queues);
        if queues.closed || queues.waits_in_table(&parcel) {
            return Err(parcel);
        }
        queues.places += 1;
        let place = queues.places;
        queues.change(number, |handler| handler.push(lane, parcel, place));
        drop(queues);
        self.work.notify_one();
        Ok(())
    }

    /// The next events, or `None` once the lanes are closed and empty. Cancel-safe: an event leaves its
    /// lane only in the last step.
    pub(crate) async fn take(&self) -> Option<Drawn<'_>> {
        loop {
            if let Some(taken) = self.look() {
                return taken;
            }
            // Before another look: what comes after that is not missed.
            let mut work = pin!(self.work.notified());
            work.as_mut().enable();
            if let Some(taken) = self.look() {
                return taken;
            }
            work.await;
        }
    }

    /// What there is for a worker now: events, or the end; nothing if it has to wait.
    fn look(&self) -> Option<Option<Drawn<'_>>> {
        let mut queues = lock(&self.queues);
        let resumed = std::mem::take(&mut queues.paused);
        let drawn = queues.draw();
        let is_over = queues.closed && queues.is_empty();
        drop(queues);
        if resumed {
            info!("a worker is free again: events are taken");
        }
        if is_over {
            // Whoever waits has nothing to wait for any more.
            self.work.notify_waiters();
        }
        let is_cold = drawn.as_ref().is_some_and(|(first, ..)| first.lane() == Lane::Cold);
        if resumed || is_cold {
            self.room.notify_waiters();
        }
        match drawn {
            Some((first, rest, number, began)) => {
                let run = Run { lanes: self, route: first.route, number, began };
                Some(Some(Drawn { first, rest, run }))
            }
            None => is_over.then_some(None),
        }
    }

    /// Takes out what has waited for a worker for `limit` or longer, and all that waits for a handler
    /// whose runs are all stuck for as long. Nothing is taken for such a handler until a run of it ends.
    pub(crate) fn take_overdue(&self, limit: Duration) -> Overdue {
        let mut queues = lock(&self.queues);
        let mut stuck = Vec::new();
        for (number, handler) in queues.handlers.iter_mut().enumerate() {
            if handler.is_stuck(limit) && handler.pause() {
                stuck.push(Route::of_number(number));
            }
        }
        let parcels = queues.take_out(|handler, out| match handler.is_paused() {
            true => handler.take_all(out),
            false => handler.take_overdue(limit, out),
        });
        Overdue { parcels: self.taken_out(queues, parcels), stuck }
    }

    /// If every worker has been in one run for `limit` or longer: takes everything out, and takes
    /// nothing in until a worker asks for work. None if it is so already.
    pub(crate) fn pause_if_stuck(&self, limit: Duration) -> Option<Vec<Parcel>> {
        let mut queues = lock(&self.queues);
        let stuck: usize = queues.handlers.iter().map(|handler| handler.stuck(limit)).sum();
        if !queues.is_open() || stuck < self.all.workers {
            return None;
        }
        queues.paused = true;
        let out = queues.take_out(HandlerQueue::take_all);
        Some(self.taken_out(queues, out))
    }

    /// Takes back what still waits in the cold lane.
    pub(crate) fn recall_cold(&self) -> Vec<Parcel> {
        let mut queues = lock(&self.queues);
        let out = queues.take_out(HandlerQueue::take_cold);
        self.taken_out(queues, out)
    }

    /// Takes back what still waits in the cold lane, and until the answer is dropped lets no run put back
    /// there what it did not try: one that fails at its first event each time would never leave it.
    pub(crate) fn clear_cold(&self) -> Clearing<'_> {
        lock(&self.queues).clearing = true;
        let recalled = self.recall_cold().len();
        debug!(recalled, "released, so that a suspect can run alone");
        Clearing(self)
    }

    fn taken_out(&self, queues: MutexGuard<'_, Queues>, out: Vec<Parcel>) -> Vec<Parcel> {
        let is_over = queues.closed && queues.is_empty();
        drop(queues);
        if is_over {
            self.work.notify_waiters();
        }
        self.room.notify_waiters();
        out
    }

    /// What to claim now of a portion, for handlers of this speed; nothing while there is no room for it.
    pub(crate) fn wanted(&self, portion: Portion, speed: Speed) -> Option<Wanted> {
        lock(&self.queues).wanted(portion, speed)
    }

    /// Waits until there is room for a portion.
    pub(crate) async fn room_for(&self, portion: Portion) {
        self.until(|queues| queues.wanted(portion, Speed::Usual).is_some()).await;
    }

    /// Waits until a claim would be made for one of these handlers: of one portion, or of the other for
    /// those that are slow.
    pub(crate) async fn wanted_again(&self, left_out: &[Route], usual: Portion, slow: Portion) {
        let wants = |queues: &Queues, route| queues.wants_again(route, usual, slow);
        self.until(|queues| left_out.iter().any(|route| wants(queues, *route))).await;
    }

    /// Whether a handler takes events that were claimed: its part of the cold lane is not full, and a run
    /// of it may begin some time.
    pub(crate) fn takes_cold(&self, route: Route) -> bool {
        lock(&self.queues).takes_cold(route)
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

    /// When the next probe of a target may begin that is unavailable.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        let queues = lock(&self.queues);
        queues.handlers.iter().filter_map(|handler| handler.circuit.probe_at()).min()
    }

    /// Handlers that can begin no run now.
    pub(crate) fn busy(&self) -> Vec<Route> {
        self.routes(|handler| !handler.is_free())
    }

    /// Handlers for which nothing is taken now: an operator paused them, their runs are stuck, or their
    /// target is unavailable.
    pub(crate) fn shut(&self) -> Vec<Route> {
        self.routes(HandlerQueue::is_shut)
    }

    /// Handlers that can begin no run, and have begun none for `limit`.
    pub(crate) fn stuck(&self, limit: Duration) -> Vec<Route> {
        self.routes(|handler| handler.is_stuck(limit))
    }

    fn routes(&self, are: impl Fn(&HandlerQueue) -> bool) -> Vec<Route> {
        let queues = lock(&self.queues);
        let all = queues.handlers.iter().enumerate().filter(|(_, handler)| are(handler));
        all.map(|(number, _)| Route::of_number(number)).collect()
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
        LaneDepths { hot: queues.hot.count, cold: queues.cold.count }
    }
}

/// What was taken out because it waited too long.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    pub(crate) parcels: Vec<Parcel>,
    /// Handlers for which nothing is taken from now on.
    pub(crate) stuck: Vec<Route>,
}

/// The cold lane is cleared for a suspect, until this is dropped.
#[derive(Debug)]
pub(crate) struct Clearing<'l>(&'l Lanes);

impl Drop for Clearing<'_> {
    fn drop(&mut self) {
        lock(&self.0.queues).clearing = false;
    }
}

impl Run<'_> {
    /// What became of an event of this run: delivered, or failed with this class. Where that shows that
    /// the target is unavailable, what waits for it is released.
    pub(crate) fn learn(&self, id: EventId, failed: Option<FailureClass>) -> Learned {
        if self.route == Route::NOBODY {
            return Learned::Nothing;
        }
        let mut queues = lock(&self.lanes.queues);
        let circuit = &mut queues.handlers[self.route.number()].circuit;
        let learned = circuit.learn(id, failed, self.began, Instant::now());
        if learned == Learned::Nothing {
            return learned;
        }
        let mut waiting = Vec::new();
        if queues.handlers[self.route.number()].circuit.is_open() {
            queues.change(self.route.number(), |handler| handler.take_all(&mut waiting));
        }
        // Whoever waits for room looks again: there is some, or a time to wait for.
        let waiting = self.lanes.taken_out(queues, waiting);
        waiting.into_iter().for_each(|parcel| parcel.ticket.leave_to_others());
        learned
    }

    /// Puts events of this run back that were not tried, before all others, whether there is room or not;
    /// or releases them while they wait in the table, and those of the cold lane while it is cleared.
    pub(crate) fn put_back(&self, untried: Vec<Parcel>) {
        let mut queues = lock(&self.lanes.queues);
        let clearing = queues.clearing;
        let (waiting, rest): (Vec<_>, Vec<_>) =
            untried.into_iter().partition(|parcel| queues.waits_in_table(parcel));
        let is_cleared = |parcel: &Parcel| clearing && parcel.lane() == Lane::Cold;
        let (cleared, kept): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_cleared);
        queues.change(self.route.number(), |handler| {
            for parcel in kept.into_iter().rev() {
                handler.push_first(parcel.lane(), parcel);
            }
        });
        drop(queues);
        drop(cleared);
        waiting.into_iter().for_each(|parcel| parcel.ticket.leave_to_others());
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.lanes.queues);
        let resumed = queues.handlers[self.route.number()].end(self.number);
        drop(queues);
        if resumed {
            self.lanes.room.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
