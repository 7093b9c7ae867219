//! What lanes promise: shares, order, bounds in number and bytes.

use std::sync::Arc;

use sendoff_core::{Event, EventId, Origin, Timestamp, Token};
use tokio::time::Instant;

use super::super::{Admission, Deadline, Holds};
use super::*;
use crate::options::CircuitOptions;
use crate::store::Held;

fn parcel(lane: Lane, number: u32) -> Parcel {
    let held = Held::row(EventId::generate(), Token::new(Timestamp::from_micros(0)));
    let holds = Arc::new(Holds::new(Duration::ZERO, None));
    let until = Deadline::after(Duration::from_secs(9));
    let Admission::Ticket(ticket) = holds.admit(held, until, lane) else { panic!() };
    let event = Event::json("e", &number).unwrap();
    let created_at = Timestamp::now();
    Parcel {
        delivery: Delivery { event, created_at, attempt: number, origin: Origin::Row(lane) },
        attempt: Attempt::next(0),
        ticket,
        route: Route::of_number(1),
        waited: None,
        epoch: 0,
    }
}

const ALL: Portion = Portion { rows: usize::MAX, bytes: usize::MAX };

/// Lanes of so many parcels, and of 1,000 bytes each.
fn lanes(hot: usize, cold: usize) -> Lanes {
    of_handlers(100, hot, cold, &[None])
}

/// The same for handlers with limits of their own, or without.
fn of_handlers(workers: usize, hot: usize, cold: usize, limits: &[Option<usize>]) -> Lanes {
    let bound = |count| Bound { count, bytes: 1_000 };
    let demands: Vec<_> =
        limits.iter().map(|runs| Some(Demand { runs: *runs, batch: 1 })).collect();
    let all = Capacity { workers, hot: bound(hot), cold: bound(cold) };
    Lanes::new(all, &demands, CircuitOptions::default())
}

fn parcel_for(handler: usize, lane: Lane, number: u32) -> Parcel {
    Parcel { route: Route::of_number(handler), ..parcel(lane, number) }
}

/// The room of the first handler in the cold lane.
fn room(lanes: &Lanes) -> Portion {
    let queues = lock(&lanes.queues);
    queues.room(&queues.handlers[1], Lane::Cold)
}

fn limit(lanes: &Lanes) -> usize {
    lock(&lanes.queues).handlers[1].cold_limit()
}

fn heavy(lane: Lane, bytes: usize) -> Parcel {
    let mut parcel = parcel(lane, 1);
    parcel.delivery.event = Event::builder("e").bytes(vec![0; bytes]).build().unwrap();
    parcel
}

async fn drawn(lanes: &Lanes) -> (Lane, u32) {
    let delivery = lanes.take().await.unwrap().first.delivery;
    (delivery.lane().unwrap(), delivery.attempt)
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
    assert_eq!(room(&lanes).rows, 2);
    lanes.offer(parcel(Lane::Hot, 0)).unwrap();
    assert!(lanes.offer(parcel(Lane::Hot, 1)).is_err());
    lanes.offer(parcel(Lane::Cold, 2)).unwrap();
    assert_eq!((room(&lanes).rows, lanes.depths()), (1, LaneDepths { hot: 1, cold: 1 }));
    lanes.close();
    assert!(lanes.offer(parcel(Lane::Cold, 3)).is_err());
    assert_eq!(room(&lanes), Portion { rows: 0, bytes: 0 });
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
    tokio::join!(biased; lanes.room_for(ALL), drawn(&lanes));
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
    assert!(lanes.take_overdue(2 * SECOND).parcels.is_empty());
    tokio::time::advance(SECOND).await;
    let overdue: Vec<_> = lanes
        .take_overdue(2 * SECOND)
        .parcels
        .iter()
        .map(|parcel| parcel.delivery.attempt)
        .collect();
    assert_eq!((overdue, limit(&lanes), room(&lanes).rows), (vec![2, 1], 1, 0));
    assert_eq!(drawn(&lanes).await, (Lane::Cold, 3));
    assert_eq!(room(&lanes).rows, 2, "a lane that was emptied may grow");
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
    assert_eq!(lanes.take_overdue(SECOND).parcels.len(), 1);
    assert!(futures_util::poll!(&mut take).is_pending());
    lanes.offer(parcel(Lane::Hot, 2)).unwrap();
    assert_eq!(take.await.unwrap().first.delivery.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn paused_lanes_take_nothing_until_a_worker_asks_for_work() {
    let lanes = of_handlers(2, 5, 5, &[None, None]);
    lanes.offer(parcel_for(1, Lane::Hot, 0)).unwrap();
    lanes.offer(parcel_for(2, Lane::Hot, 0)).unwrap();
    let stuck = [lanes.take().await.unwrap(), lanes.take().await.unwrap()];
    lanes.offer(parcel(Lane::Hot, 1)).unwrap();
    lanes.offer(parcel(Lane::Cold, 2)).unwrap();
    assert!(lanes.pause_if_stuck(SECOND).is_none());
    tokio::time::advance(SECOND).await;
    assert_eq!(lanes.pause_if_stuck(SECOND).map(|out| out.len()), Some(2));
    assert!(lanes.pause_if_stuck(SECOND).is_none(), "it is so already");
    assert!(lanes.offer(parcel(Lane::Hot, 3)).is_err());
    assert!(!lanes.is_open() && room(&lanes).rows == 0);
    drop(stuck);
    let worker = async { tokio::time::timeout(SECOND, lanes.take()).await.is_err() };
    let ((), idle) = tokio::join!(biased; lanes.room_for(ALL), worker);
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
    assert_eq!(room(&lanes), Portion { rows: 99, bytes: 400 });
    let half = Portion { rows: 1, bytes: 500 };
    tokio::join!(biased; lanes.room_for(half), drawn(&lanes));
}

#[tokio::test(start_paused = true)]
async fn what_is_recalled_is_of_the_cold_lane_only() {
    let lanes = lanes(10, 10);
    lanes.offer(parcel(Lane::Cold, 1)).unwrap();
    lanes.offer(parcel(Lane::Hot, 2)).unwrap();
    lanes.offer(parcel(Lane::Cold, 3)).unwrap();
    let recalled: Vec<_> =
        lanes.recall_cold().into_iter().map(|parcel| parcel.delivery.attempt).collect();
    let room = room(&lanes);
    assert_eq!((recalled, room), (vec![1, 3], Portion { rows: 10, bytes: 1_000 }));
    assert_eq!(drawn(&lanes).await, (Lane::Hot, 2));
}

/// Who handles what is drawn next, if anything can be begun now.
fn next<'l>(lanes: &'l Lanes) -> Option<(usize, Drawn<'l>)> {
    let drawn = futures_util::FutureExt::now_or_never(lanes.take())??;
    Some((drawn.first.route.number(), drawn))
}

/// Holds D8.
#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_takes_no_worker_and_no_room_from_another() {
    for lane in [Lane::Hot, Lane::Cold] {
        let lanes = of_handlers(4, 12, 12, &[None, None, None]);
        for number in 0..9 {
            assert_eq!(lanes.offer(parcel_for(1, lane, number)).is_ok(), number < 6, "{number}");
        }
        lanes.offer(parcel_for(2, lane, 0)).unwrap();
        lanes.offer(parcel_for(3, lane, 0)).unwrap();
        let mut drawn = Vec::new();
        while let Some(next) = next(&lanes) {
            drawn.push(next);
        }
        let handlers: Vec<_> = drawn.iter().map(|(handler, _)| *handler).collect();
        assert_eq!(handlers, [1, 2, 3, 1], "fewest runs first, and half of the workers");
        drop(drawn.remove(1));
        assert!(next(&lanes).is_none(), "a run of another makes no room for it");
        drop(drawn.remove(0));
        assert_eq!(lanes.take().await.unwrap().first.delivery.attempt, 2);
    }
}

/// Three slow handlers with full queues keep no quick one waiting, whatever came first.
#[tokio::test(start_paused = true)]
async fn the_handler_with_the_fewest_runs_is_next_and_a_full_lane_has_room_for_it() {
    let lanes = of_handlers(4, 20, 20, &[None; 4]);
    for handler in 1..=3 {
        for number in 0..20 {
            let _ = lanes.offer(parcel_for(handler, Lane::Cold, number));
        }
    }
    assert_eq!(lanes.depths().cold, 16, "what is the fourth's own, and nobody's, stays free");
    let slow = [next(&lanes).unwrap(), next(&lanes).unwrap(), next(&lanes).unwrap()];
    assert_eq!(slow.each_ref().map(|(handler, _)| *handler), [1, 2, 3]);
    for number in 0..4 {
        lanes.offer(parcel_for(4, Lane::Cold, number)).unwrap();
    }
    for number in 0..4 {
        let (handler, drawn) = next(&lanes).unwrap();
        assert_eq!((handler, drawn.first.delivery.attempt), (4, number));
    }
}

#[tokio::test(start_paused = true)]
async fn closed_lanes_wait_for_runs_whose_handler_has_more_to_do_and_then_end_for_everybody() {
    let lanes = of_handlers(4, 10, 10, &[Some(1), None]);
    lanes.offer(parcel_for(1, Lane::Hot, 1)).unwrap();
    lanes.offer(parcel_for(1, Lane::Hot, 2)).unwrap();
    let (_, first) = next(&lanes).unwrap();
    lanes.close();
    let busy = async {
        tokio::task::yield_now().await;
        drop(first);
        let rest = lanes.take().await.map(|drawn| drawn.first.delivery.attempt);
        (rest, lanes.take().await.is_none())
    };
    let (other, busy) = tokio::join!(biased; lanes.take(), busy);
    assert_eq!((busy, other.is_none()), ((Some(2), true), true));
}

fn wanted(lanes: &Lanes, rows: usize, speed: Speed) -> Option<(usize, Vec<usize>)> {
    let wanted = lanes.wanted(Portion { rows, bytes: 100 }, speed)?;
    Some((wanted.portion.rows, wanted.except.iter().map(|route| route.number()).collect()))
}

#[tokio::test(start_paused = true)]
async fn no_more_is_claimed_than_fits_whosever_it_is_and_nothing_for_a_handler_without_room() {
    let lanes = of_handlers(4, 12, 12, &[None, None]);
    assert_eq!(wanted(&lanes, 8, Speed::Usual), Some((6, vec![])), "half of it");
    for number in 0..2 {
        lanes.offer(parcel_for(1, Lane::Cold, number)).unwrap();
    }
    assert_eq!(wanted(&lanes, 8, Speed::Usual), Some((4, vec![])), "they have room for four");
    for number in 2..6 {
        lanes.offer(parcel_for(1, Lane::Cold, number)).unwrap();
    }
    assert_eq!(wanted(&lanes, 8, Speed::Usual), Some((4, vec![1])));
    for number in 0..4 {
        lanes.offer(parcel_for(2, Lane::Cold, number)).unwrap();
    }
    assert_eq!(wanted(&lanes, 8, Speed::Usual), None, "nobody has room");
    let portion = Portion { rows: 8, bytes: 100 };
    let draws = async { next(&lanes).unwrap() };
    let left_out = [Route::of_number(1)];
    let ((), drawn) = tokio::join!(biased; lanes.wanted_again(&left_out, portion, portion), draws);
    assert_eq!(drawn.0, 1);
    assert_eq!(wanted(&lanes, 8, Speed::Usual), Some((1, vec![])));
    let lanes = of_handlers(4, 60, 60, &[None, None]);
    for number in 0..27 {
        lanes.offer(parcel_for(1, Lane::Cold, number)).unwrap();
    }
    assert_eq!(wanted(&lanes, 50, Speed::Usual), Some((23, vec![1])), "not for a few places");
}

/// Else claims for all would be as small, or the others' rows claimed in vain.
#[tokio::test(start_paused = true)]
async fn handlers_whose_events_waited_too_long_are_claimed_for_by_themselves() {
    let lanes = of_handlers(4, 30, 30, &[None, None]);
    lanes.offer(parcel_for(1, Lane::Cold, 0)).unwrap();
    tokio::time::advance(SECOND).await;
    assert_eq!(lanes.take_overdue(SECOND).parcels.len(), 1);
    assert_eq!(wanted(&lanes, 9, Speed::Usual), Some((9, vec![1])));
    assert_eq!(wanted(&lanes, 9, Speed::Slow), Some((1, vec![2])));
    while lanes.offer(parcel_for(2, Lane::Cold, 1)).is_ok() {}
    assert_eq!(wanted(&lanes, 9, Speed::Usual), Some((1, vec![2])), "where no other has room");
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_handler_whose_runs_are_all_stuck_is_taken_out_until_one_of_them_ends() {
    let lanes = of_handlers(4, 12, 12, &[None, None]);
    let stuck = Route::of_number(1);
    for number in 0..3 {
        lanes.offer(parcel_for(1, Lane::Cold, number)).unwrap();
    }
    let (runs, busy) = ([next(&lanes).unwrap(), next(&lanes).unwrap()], lanes.busy());
    assert_eq!(busy, [stuck]);
    tokio::time::advance(SECOND).await;
    let overdue = lanes.take_overdue(SECOND);
    assert_eq!((overdue.stuck, overdue.parcels.len()), (vec![stuck], 1));
    assert!(lanes.take_overdue(SECOND).stuck.is_empty(), "it is said once");
    assert!(lanes.offer(parcel_for(1, Lane::Hot, 4)).is_err());
    lanes.offer(parcel_for(2, Lane::Hot, 5)).unwrap();
    assert_eq!(wanted(&lanes, 1, Speed::Usual), Some((1, vec![1])));
    let ends = async { drop(runs) };
    let one = Portion { rows: 1, bytes: 1 };
    let left_out = [stuck];
    tokio::join!(biased; lanes.wanted_again(&left_out, one, one), ends);
    lanes.offer(parcel_for(1, Lane::Hot, 6)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sink_gets_what_waits_for_it_and_again_what_it_did_not_try() {
    let bound = Bound { count: 9, bytes: 1_000 };
    let capacity = Capacity { workers: 4, hot: bound, cold: bound };
    let lanes =
        Lanes::new(capacity, &[Some(Demand { runs: None, batch: 3 })], CircuitOptions::default());
    let attempts = |drawn: &Drawn<'_>| -> Vec<_> {
        let all = std::iter::once(&drawn.first).chain(&drawn.rest);
        all.map(|parcel| parcel.delivery.attempt).collect()
    };
    for number in 0..5 {
        lanes.offer(parcel(Lane::Hot, number)).unwrap();
    }
    let (_, first) = next(&lanes).unwrap();
    assert_eq!(attempts(&first), [0, 1, 2]);
    first.run.put_back(first.rest);
    assert_eq!(lanes.depths().hot, 4);
    let (_, second) = next(&lanes).unwrap();
    assert_eq!(attempts(&second), [1, 2, 3]);
}
