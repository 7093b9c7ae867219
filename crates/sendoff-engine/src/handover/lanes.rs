use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, Lane};
use tokio::sync::{Notify, Semaphore};

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

#[derive(Debug, Default)]
struct Queues {
    hot: VecDeque<Parcel>,
    cold: VecDeque<Parcel>,
    turn: u8,
    closed: bool,
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

impl Lanes {
    pub(crate) fn new(hot_capacity: usize, cold_capacity: usize) -> Self {
        Self {
            queues: Mutex::default(),
            hot_capacity,
            cold_capacity,
            waiting: Semaphore::new(0),
            room: Notify::new(),
        }
    }

    /// Puts a parcel into its lane; gives it back if the lane is full or closed.
    pub(crate) fn offer(&self, parcel: Parcel) -> Result<(), Parcel> {
        let mut queues = lock(&self.queues);
        if queues.closed {
            return Err(parcel);
        }
        let (queue, capacity) = match parcel.delivery.lane {
            Lane::Hot => (&mut queues.hot, self.hot_capacity),
            Lane::Cold => (&mut queues.cold, self.cold_capacity),
        };
        if queue.len() >= capacity {
            return Err(parcel);
        }
        queue.push_back(parcel);
        // Under the lock, so that a permit never precedes its parcel.
        self.waiting.add_permits(1);
        Ok(())
    }

    /// The next parcel, or `None` once the lanes are closed and empty. Cancel-safe: a parcel leaves
    /// its lane only in the last step.
    pub(crate) async fn take(&self) -> Option<Parcel> {
        // The semaphore is closed together with the lanes; what is left then needs no permit.
        if let Ok(permit) = self.waiting.acquire().await {
            permit.forget();
        }
        let mut queues = lock(&self.queues);
        let lane = next_lane(queues.turn, !queues.hot.is_empty(), !queues.cold.is_empty())?;
        queues.turn = (queues.turn + 1) % 3;
        match lane {
            Lane::Hot => queues.hot.pop_front(),
            Lane::Cold => {
                let parcel = queues.cold.pop_front();
                drop(queues);
                self.room.notify_waiters();
                parcel
            }
        }
    }

    /// How many parcels the cold lane can still take.
    pub(crate) fn cold_room(&self) -> usize {
        let queues = lock(&self.queues);
        if queues.closed { 0 } else { self.cold_capacity - queues.cold.len() }
    }

    /// Waits until the cold lane can take `room` parcels, or as many as it ever can.
    pub(crate) async fn wait_for_cold_room(&self, room: usize) {
        let room = room.min(self.cold_capacity);
        loop {
            let changed = self.room.notified();
            if self.cold_room() >= room {
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

    pub(crate) fn depths(&self) -> LaneDepths {
        let queues = lock(&self.queues);
        LaneDepths { hot: queues.hot.len(), cold: queues.cold.len() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sendoff_core::{Event, EventId, Timestamp, Token};
    use tokio::time::Instant;

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
}
