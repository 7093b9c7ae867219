use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, Lane};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tracing::info;

use super::Ticket;
use crate::appetite::Portion;
use crate::lock::lock;
use crate::weight::weight;

/// An event on its way to a worker.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) delivery: Delivery,
    pub(crate) attempt: Attempt,
    pub(crate) ticket: Ticket,
    /// How old the row was when it came here, by the database's clock.
    pub(crate) age: Duration,
    /// Over which links it was last known to be held.
    pub(crate) epoch: u64,
}

/// What a queue may hold: so many events, and so many bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

impl Bound {
    /// Whether one more fits. Bytes may be exceeded by the last one, so that one that is larger than
    /// all of them fits an empty queue, and none is claimed in vain.
    pub(crate) fn takes(self, count: usize, bytes: usize) -> bool {
        count < self.count && bytes < self.bytes
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

/// The hot and the cold lane: both bounded, drawn 2:1, with one wake-up over both.
#[derive(Debug)]
pub(crate) struct Lanes {
    queues: Mutex<Queues>,
    hot: Bound,
    cold: Bound,
    /// One permit for each waiting parcel, of either lane: a worker that waits here waits for both.
    waiting: Semaphore,
    /// The cold lane gave one away.
    room: Notify,
}

#[derive(Debug)]
struct Queues {
    hot: Queue,
    cold: Queue,
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

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
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

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
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
        queue.pop()
    }
}

impl Lanes {
    pub(crate) fn new(hot: Bound, cold: Bound) -> Self {
        Self {
            queues: Mutex::new(Queues {
                hot: Queue::default(),
                cold: Queue::default(),
                cold_limit: cold.count,
                cold_drawn: 0,
                turn: 0,
                paused: false,
                closed: false,
            }),
            hot,
            cold,
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
        let (queue, bound) = match parcel.delivery.lane {
            Lane::Hot => (&mut queues.hot, self.hot),
            Lane::Cold => (&mut queues.cold, self.cold),
        };
        if !bound.takes(queue.len(), queue.bytes) {
            return Err(parcel);
        }
        queue.push(Waiting { parcel, since: Instant::now(), cold_drawn });
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
                            queues.cold_limit = (queues.cold_limit * 2).min(self.cold.count);
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
        let late = |queue: &Queue| {
            let late = |waiting: &&Waiting| now.duration_since(waiting.since) >= limit;
            queue.waiting.iter().take_while(late).count()
        };
        let (hot, cold) = (late(&queues.hot), late(&queues.cold));
        if let Some(first) = queues.cold.waiting.front().filter(|_| cold > 0) {
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

    /// Takes back what still waits in the cold lane.
    pub(crate) fn recall_cold(&self) -> Vec<Parcel> {
        let queues = lock(&self.queues);
        let cold = queues.cold.len();
        self.take_out(queues, 0, cold)
    }

    fn take_out(&self, mut queues: MutexGuard<'_, Queues>, hot: usize, cold: usize) -> Vec<Parcel> {
        let mut out = Vec::with_capacity(hot + cold);
        out.extend((0..hot).map_while(|_| queues.hot.pop()));
        out.extend((0..cold).map_while(|_| queues.cold.pop()));
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

    /// How much the cold lane can still take.
    pub(crate) fn cold_room(&self) -> Portion {
        let queues = lock(&self.queues);
        if !queues.is_open() {
            return Portion { rows: 0, bytes: 0 };
        }
        Portion {
            rows: queues.cold_limit.saturating_sub(queues.cold.len()),
            bytes: self.cold.bytes.saturating_sub(queues.cold.bytes),
        }
    }

    /// Waits until the cold lane can take a portion, or as much as it can now.
    pub(crate) async fn wait_for_cold_room(&self, portion: Portion) {
        loop {
            let changed = self.room.notified();
            let rows = portion.rows.min(self.cold_limit());
            if self.cold_room().covers(Portion { rows, bytes: portion.bytes.min(self.cold.bytes) })
            {
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
            epoch: 0,
        }
    }

    const ALL: Portion = Portion { rows: usize::MAX, bytes: usize::MAX };

    /// Lanes of so many parcels, and of 1,000 bytes each.
    fn lanes(hot: usize, cold: usize) -> Lanes {
        let bound = |count| Bound { count, bytes: 1_000 };
        Lanes::new(bound(hot), bound(cold))
    }

    fn heavy(lane: Lane, bytes: usize) -> Parcel {
        let mut parcel = parcel(lane, 1);
        parcel.delivery.event = Event::builder("e").bytes(vec![0; bytes]).build().unwrap();
        parcel
    }

    async fn drawn(lanes: &Lanes) -> (Lane, u32) {
        let delivery = lanes.take().await.unwrap().delivery;
        (delivery.lane, delivery.attempt)
    }

    /// Holds D2.
    #[tokio::test]
    async fn two_hot_to_one_cold_under_endless_load_and_first_in_first_out() {
        let lanes = lanes(100, 100);
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
            let lanes = Arc::new(lanes(10, 10));
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
        let lanes = Arc::new(lanes(10, 10));
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
        let lanes = lanes(1, 2);
        assert_eq!(lanes.cold_room().rows, 2);
        lanes.offer(parcel(Lane::Hot, 0)).unwrap();
        assert!(lanes.offer(parcel(Lane::Hot, 1)).is_err());
        lanes.offer(parcel(Lane::Cold, 2)).unwrap();
        assert_eq!((lanes.cold_room().rows, lanes.depths()), (1, LaneDepths { hot: 1, cold: 1 }));
        lanes.close();
        assert!(lanes.offer(parcel(Lane::Cold, 3)).is_err());
        assert_eq!(lanes.cold_room(), Portion { rows: 0, bytes: 0 });
    }

    /// Holds D10.
    #[tokio::test]
    async fn closed_lanes_drain_and_then_end() {
        let lanes = lanes(5, 5);
        lanes.offer(parcel(Lane::Hot, 1)).unwrap();
        lanes.offer(parcel(Lane::Cold, 2)).unwrap();
        lanes.close();
        assert!(lanes.take().await.is_some());
        assert!(lanes.take().await.is_some());
        assert!(lanes.take().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_take_loses_no_parcel() {
        let lanes = lanes(5, 5);
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
        let lanes = lanes(1, 2);
        lanes.offer(parcel(Lane::Cold, 0)).unwrap();
        tokio::join!(biased; lanes.wait_for_cold_room(ALL), drawn(&lanes));
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// Holds D2: what waits too long is taken out, and the lane takes less from then on.
    #[tokio::test(start_paused = true)]
    async fn what_waits_too_long_is_taken_out_and_the_cold_lane_shrinks_and_grows_again() {
        let lanes = lanes(10, 8);
        lanes.offer(parcel(Lane::Cold, 1)).unwrap();
        lanes.offer(parcel(Lane::Hot, 2)).unwrap();
        tokio::time::advance(SECOND).await;
        lanes.offer(parcel(Lane::Cold, 3)).unwrap();
        assert!(lanes.take_overdue(2 * SECOND).is_empty());
        tokio::time::advance(SECOND).await;
        let overdue: Vec<_> =
            lanes.take_overdue(2 * SECOND).iter().map(|parcel| parcel.delivery.attempt).collect();
        assert_eq!((overdue, lanes.cold_limit(), lanes.cold_room().rows), (vec![2, 1], 1, 0));
        assert_eq!(drawn(&lanes).await, (Lane::Cold, 3));
        assert_eq!(lanes.cold_room().rows, 2, "a lane that was emptied may grow");
        let taken = tokio::time::timeout(SECOND, lanes.take()).await;
        assert!(taken.is_err(), "no permit is left of what was taken out");
    }

    /// A worker may have its permit already when the parcel is taken out.
    #[tokio::test(start_paused = true)]
    async fn a_worker_that_finds_nothing_asks_again() {
        let lanes = lanes(5, 5);
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
        let lanes = lanes(5, 5);
        lanes.offer(parcel(Lane::Hot, 1)).unwrap();
        lanes.offer(parcel(Lane::Cold, 2)).unwrap();
        assert_eq!(lanes.pause().map(|out| out.len()), Some(2));
        assert!(lanes.pause().is_none(), "it is so already");
        assert!(lanes.offer(parcel(Lane::Hot, 3)).is_err());
        assert!(!lanes.is_open() && lanes.cold_room().rows == 0);
        let worker = async { tokio::time::timeout(SECOND, lanes.take()).await.is_err() };
        let ((), idle) = tokio::join!(biased; lanes.wait_for_cold_room(ALL), worker);
        assert!(idle && lanes.is_open());
    }

    /// Holds D1.
    #[tokio::test(start_paused = true)]
    async fn a_lane_is_full_by_its_bytes_too_and_takes_one_parcel_however_large() {
        for lane in [Lane::Hot, Lane::Cold] {
            let lanes = lanes(100, 100);
            lanes.offer(heavy(lane, 999)).unwrap();
            lanes.offer(heavy(lane, 999)).unwrap();
            assert!(lanes.offer(heavy(lane, 1)).is_err());
            for _ in 0..2 {
                drawn(&lanes).await;
            }
            lanes.offer(heavy(lane, 1 << 20)).unwrap();
            assert!(lanes.offer(heavy(lane, 1)).is_err());
        }
        let lanes = lanes(100, 100);
        lanes.offer(heavy(Lane::Cold, 600)).unwrap();
        assert_eq!(lanes.cold_room(), Portion { rows: 99, bytes: 400 });
        let half = Portion { rows: 1, bytes: 500 };
        tokio::join!(biased; lanes.wait_for_cold_room(half), drawn(&lanes));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_recalled_is_of_the_cold_lane_only() {
        let lanes = lanes(10, 10);
        lanes.offer(parcel(Lane::Cold, 1)).unwrap();
        lanes.offer(parcel(Lane::Hot, 2)).unwrap();
        lanes.offer(parcel(Lane::Cold, 3)).unwrap();
        let recalled: Vec<_> =
            lanes.recall_cold().into_iter().map(|parcel| parcel.delivery.attempt).collect();
        let room = lanes.cold_room();
        assert_eq!((recalled, room), (vec![1, 3], Portion { rows: 10, bytes: 1_000 }));
        assert_eq!(drawn(&lanes).await, (Lane::Hot, 2));
    }
}
