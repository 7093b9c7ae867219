use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, Lane};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tracing::info;

use super::Ticket;
use crate::lock::lock;

/// An event on its way to a worker.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) delivery: Delivery,
    pub(crate) attempt: Attempt,
    pub(crate) ticket: Ticket,
    /// How old the row was when it came here, by the database's clock.
    pub(crate) age: Duration,
}

/// How full the lanes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneDepths {
    /// Events waiting right after their commit.
    pub hot: usize,
    /// Events waiting after a claim.
    pub cold: usize,
}

/// The hot and the cold lane: both bounded, drawn 2:1, with one wake-up over both.
#[derive(Debug)]
pub(crate) struct Lanes {
    queues: Mutex<Queues>,
    hot_capacity: usize,
    cold_capacity: usize,
    /// One permit for each waiting parcel, of either lane: a worker that waits here waits for both.
    waiting: Semaphore,
    /// The cold lane gave one away.
    room: Notify,
}

#[derive(Debug)]
struct Queues {
    hot: VecDeque<Waiting>,
    cold: VecDeque<Waiting>,
    /// How many the cold lane takes now: fewer than it could while its parcels wait too long, so that
    /// this node does not keep from others what it cannot begin in time.
    cold_limit: usize,
    /// Parcels that workers took from the cold lane so far.
    cold_drawn: usize,
    turn: u8,
    /// Every worker is stuck: nothing is taken until one of them asks for work.
    paused: bool,
    closed: bool,
}

#[derive(Debug)]
struct Waiting {
    parcel: Parcel,
    since: Instant,
    /// What the cold lane had given away by then.
    cold_drawn: usize,
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

    fn draw(&mut self) -> Option<Parcel> {
        let lane = next_lane(self.turn, !self.hot.is_empty(), !self.cold.is_empty())?;
        self.turn = (self.turn + 1) % 3;
        let queue = match lane {
            Lane::Hot => &mut self.hot,
            Lane::Cold => &mut self.cold,
        };
        queue.pop_front().map(|waiting| waiting.parcel)
    }
}

impl Lanes {
    pub(crate) fn new(hot_capacity: usize, cold_capacity: usize) -> Self {
        Self {
            queues: Mutex::new(Queues {
                hot: VecDeque::new(),
                cold: VecDeque::new(),
                cold_limit: cold_capacity,
                cold_drawn: 0,
                turn: 0,
                paused: false,
                closed: false,
            }),
            hot_capacity,
            cold_capacity,
            waiting: Semaphore::new(0),
            room: Notify::new(),
        }
    }

    /// Puts a parcel into its lane; gives it back if the lane is full or takes nothing.
    pub(crate) fn offer(&self, parcel: Parcel) -> Result<(), Parcel> {
        let mut queues = lock(&self.queues);
        if !queues.is_open() {
            return Err(parcel);
        }
        let cold_drawn = queues.cold_drawn;
        let (queue, capacity) = match parcel.delivery.lane {
            Lane::Hot => (&mut queues.hot, self.hot_capacity),
            Lane::Cold => (&mut queues.cold, self.cold_capacity),
        };
        if queue.len() >= capacity {
            return Err(parcel);
        }
        queue.push_back(Waiting { parcel, since: Instant::now(), cold_drawn });
        // Under the lock, so that a permit never precedes its parcel.
        self.waiting.add_permits(1);
        Ok(())
    }

    /// The next parcel, or `None` once the lanes are closed and empty. Cancel-safe: a parcel leaves
    /// its lane only in the last step.
    pub(crate) async fn take(&self) -> Option<Parcel> {
        self.resume();
        loop {
            // The semaphore is closed together with the lanes; what is left then needs no permit.
            let open = match self.waiting.acquire().await {
                Ok(permit) => {
                    permit.forget();
                    true
                }
                Err(_) => false,
            };
            let mut queues = lock(&self.queues);
            match queues.draw() {
                Some(parcel) => {
                    if parcel.delivery.lane == Lane::Cold {
                        queues.cold_drawn += 1;
                        if queues.cold.is_empty() {
                            queues.cold_limit = (queues.cold_limit * 2).min(self.cold_capacity);
                        }
                        drop(queues);
                        self.room.notify_waiters();
                    }
                    return Some(parcel);
                }
                // The parcel of this permit waited too long, and was taken out meanwhile.
                None if open => {}
                None => return None,
            }
        }
    }

    /// Takes out what has waited for a worker for `limit` or longer. From then on the cold lane takes no
    /// more than the workers began in that time.
    pub(crate) fn take_overdue(&self, limit: Duration) -> Vec<Parcel> {
        let now = Instant::now();
        let mut queues = lock(&self.queues);
        let late = |queue: &VecDeque<Waiting>| {
            queue.iter().take_while(|waiting| now.duration_since(waiting.since) >= limit).count()
        };
        let (hot, cold) = (late(&queues.hot), late(&queues.cold));
        if let Some(first) = queues.cold.front().filter(|_| cold > 0) {
            queues.cold_limit = (queues.cold_drawn - first.cold_drawn).max(1);
        }
        self.take_out(queues, hot, cold)
    }

    /// Takes everything out, and takes nothing in until a worker asks for work. None if it is so
    /// already.
    pub(crate) fn pause(&self) -> Option<Vec<Parcel>> {
        let mut queues = lock(&self.queues);
        if !queues.is_open() {
            return None;
        }
        queues.paused = true;
        let (hot, cold) = (queues.hot.len(), queues.cold.len());
        Some(self.take_out(queues, hot, cold))
    }

    fn take_out(&self, mut queues: MutexGuard<'_, Queues>, hot: usize, cold: usize) -> Vec<Parcel> {
        let Queues { hot: hots, cold: colds, .. } = &mut *queues;
        let out = hots.drain(..hot).chain(colds.drain(..cold)).map(|waiting| waiting.parcel);
        let out: Vec<_> = out.collect();
        // A worker that has one of these permits already finds nothing, and asks again.
        self.waiting.forget_permits(out.len());
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

    /// How many parcels the cold lane takes at most, now.
    pub(crate) fn cold_limit(&self) -> usize {
        lock(&self.queues).cold_limit
    }

    /// How many parcels the cold lane can still take.
    pub(crate) fn cold_room(&self) -> usize {
        let queues = lock(&self.queues);
        if queues.is_open() { queues.cold_limit.saturating_sub(queues.cold.len()) } else { 0 }
    }

    /// Waits until the cold lane can take `room` parcels, or as many as it can now.
    pub(crate) async fn wait_for_cold_room(&self, room: usize) {
        loop {
            let changed = self.room.notified();
            if self.cold_room() >= room.min(self.cold_limit()) {
                return;
            }
            changed.await;
        }
    }

    /// Takes nothing new from now on; what is in the lanes can still be drawn.
    pub(crate) fn close(&self) {
        lock(&self.queues).closed = true;
        self.waiting.close();
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
        LaneDepths { hot: queues.hot.len(), cold: queues.cold.len() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sendoff_core::{Event, EventId, Timestamp, Token};

    use super::super::{Admission, Deadline, Holds};
    use super::*;
    use crate::store::Held;

    fn parcel(lane: Lane, number: u32) -> Parcel {
        let held = Held::row(EventId::generate(), Token::new(Timestamp::from_micros(0)));
        let holds = Arc::new(Holds::new(Duration::ZERO, None));
        let until = Deadline::after(Duration::from_secs(9));
        let Admission::Ticket(ticket) = holds.admit(held, until, lane) else { panic!() };
        let event = Event::json("e", &number).unwrap();
        let created_at = Timestamp::now();
        Parcel {
            delivery: Delivery { event, created_at, attempt: number, lane },
            attempt: Attempt::next(0),
            ticket,
            age: Duration::ZERO,
        }
    }

    async fn drawn(lanes: &Lanes) -> (Lane, u32) {
        let delivery = lanes.take().await.unwrap().delivery;
        (delivery.lane, delivery.attempt)
    }

    /// Holds D2.
    #[tokio::test]
    async fn two_hot_to_one_cold_under_endless_load_and_first_in_first_out() {
        let lanes = Lanes::new(100, 100);
        for number in 0..30 {
            lanes.offer(parcel(Lane::Hot, number)).unwrap();
            lanes.offer(parcel(Lane::Cold, number)).unwrap();
        }
        let mut cold = Vec::new();
        for _ in 0..30 {
            if let (Lane::Cold, number) = drawn(&lanes).await {
                cold.push(number);
            }
        }
        assert_eq!(cold, (0..10).collect::<Vec<_>>());
    }

    /// Holds D2: a worker never waits on one lane while the other has work.
    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_takes_from_whichever_lane_gets_work_at_once() {
        for lane in [Lane::Cold, Lane::Hot] {
            let lanes = Arc::new(Lanes::new(10, 10));
            let worker = tokio::spawn({
                let lanes = lanes.clone();
                async move { drawn(&lanes).await }
            });
            tokio::task::yield_now().await;
            let before = Instant::now();
            lanes.offer(parcel(lane, 1)).unwrap();
            assert_eq!(worker.await.unwrap(), (lane, 1));
            assert_eq!(before.elapsed(), Duration::ZERO, "no time passed while it waited");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_is_woken_when_work_for_all_of_them_comes_at_once() {
        let lanes = Arc::new(Lanes::new(10, 10));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let lanes = lanes.clone();
                tokio::spawn(async move { drawn(&lanes).await })
            })
            .collect();
        tokio::task::yield_now().await;
        for (lane, number) in [(Lane::Hot, 0), (Lane::Hot, 1), (Lane::Cold, 2), (Lane::Cold, 3)] {
            lanes.offer(parcel(lane, number)).unwrap();
        }
        for worker in workers {
            worker.await.unwrap();
        }
    }

    /// Holds D1, D9.
    #[tokio::test]
    async fn a_full_or_closed_lane_gives_the_parcel_back_and_room_can_be_asked() {
        let lanes = Lanes::new(1, 2);
        assert_eq!(lanes.cold_room(), 2);
        lanes.offer(parcel(Lane::Hot, 0)).unwrap();
        assert!(lanes.offer(parcel(Lane::Hot, 1)).is_err());
        lanes.offer(parcel(Lane::Cold, 2)).unwrap();
        assert_eq!((lanes.cold_room(), lanes.depths()), (1, LaneDepths { hot: 1, cold: 1 }));
        lanes.close();
        assert!(lanes.offer(parcel(Lane::Cold, 3)).is_err());
        assert_eq!(lanes.cold_room(), 0);
    }

    /// Holds D10.
    #[tokio::test]
    async fn closed_lanes_drain_and_then_end() {
        let lanes = Lanes::new(5, 5);
        lanes.offer(parcel(Lane::Hot, 1)).unwrap();
        lanes.offer(parcel(Lane::Cold, 2)).unwrap();
        lanes.close();
        assert!(lanes.take().await.is_some());
        assert!(lanes.take().await.is_some());
        assert!(lanes.take().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_take_loses_no_parcel() {
        let lanes = Lanes::new(5, 5);
        {
            let take = lanes.take();
            tokio::pin!(take);
            assert!(futures_util::poll!(take.as_mut()).is_pending());
            lanes.offer(parcel(Lane::Hot, 1)).unwrap();
        }
        assert_eq!(drawn(&lanes).await, (Lane::Hot, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_room_ends_when_a_parcel_leaves() {
        let lanes = Lanes::new(1, 2);
        lanes.offer(parcel(Lane::Cold, 0)).unwrap();
        tokio::join!(biased; lanes.wait_for_cold_room(usize::MAX), drawn(&lanes));
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// Holds D2: what waits too long is taken out, and the lane takes less from then on.
    #[tokio::test(start_paused = true)]
    async fn what_waits_too_long_is_taken_out_and_the_cold_lane_shrinks_and_grows_again() {
        let lanes = Lanes::new(10, 8);
        lanes.offer(parcel(Lane::Cold, 1)).unwrap();
        lanes.offer(parcel(Lane::Hot, 2)).unwrap();
        tokio::time::advance(SECOND).await;
        lanes.offer(parcel(Lane::Cold, 3)).unwrap();
        assert!(lanes.take_overdue(2 * SECOND).is_empty());
        tokio::time::advance(SECOND).await;
        let overdue: Vec<_> =
            lanes.take_overdue(2 * SECOND).iter().map(|parcel| parcel.delivery.attempt).collect();
        assert_eq!((overdue, lanes.cold_limit(), lanes.cold_room()), (vec![2, 1], 1, 0));
        assert_eq!(drawn(&lanes).await, (Lane::Cold, 3));
        assert_eq!(lanes.cold_room(), 2, "a lane that was emptied may grow");
        let taken = tokio::time::timeout(SECOND, lanes.take()).await;
        assert!(taken.is_err(), "no permit is left of what was taken out");
    }

    /// A worker may have its permit already when the parcel is taken out.
    #[tokio::test(start_paused = true)]
    async fn a_worker_that_finds_nothing_asks_again() {
        let lanes = Lanes::new(5, 5);
        let mut take = Box::pin(lanes.take());
        assert!(futures_util::poll!(&mut take).is_pending());
        lanes.offer(parcel(Lane::Hot, 1)).unwrap();
        tokio::time::advance(SECOND).await;
        assert_eq!(lanes.take_overdue(SECOND).len(), 1);
        assert!(futures_util::poll!(&mut take).is_pending());
        lanes.offer(parcel(Lane::Hot, 2)).unwrap();
        assert_eq!(take.await.unwrap().delivery.attempt, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn paused_lanes_take_nothing_until_a_worker_asks_for_work() {
        let lanes = Lanes::new(5, 5);
        lanes.offer(parcel(Lane::Hot, 1)).unwrap();
        lanes.offer(parcel(Lane::Cold, 2)).unwrap();
        assert_eq!(lanes.pause().map(|out| out.len()), Some(2));
        assert!(lanes.pause().is_none(), "it is so already");
        assert!(lanes.offer(parcel(Lane::Hot, 3)).is_err());
        assert!(!lanes.is_open() && lanes.cold_room() == 0);
        let worker = async { tokio::time::timeout(SECOND, lanes.take()).await.is_err() };
        let ((), idle) = tokio::join!(biased; lanes.wait_for_cold_room(5), worker);
        assert!(idle && lanes.is_open());
    }
}
