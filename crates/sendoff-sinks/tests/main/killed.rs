//! A broker that is killed with -9 and started again in the middle of 20,000 events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, FailureClass, Lane, Origin, Sink, Timestamp};
use sendoff_testkit::sinks::{Arrived, SinkGround};
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

const EVENTS: usize = 20_000;
const BATCH: usize = 100;
const PLENTY: Duration = Duration::from_secs(120);

pub(crate) fn delivery(event: Event) -> Delivery {
    let origin = Origin::Row(Lane::Cold);
    Delivery { event, created_at: Timestamp::now(), attempt: 1, origin }
}

/// Delivers them all, four batches at a time and what was not done again, while the server is killed three times. Answers with
/// what was delivered and what arrived, of which nothing is lost.
pub(crate) async fn twenty_thousand<G: SinkGround>(ground: &G) -> (Vec<Delivery>, Vec<Arrived>) {
    let sink = ground.sink().await;
    let event = |number: usize| Event::json("order.placed", &number).unwrap();
    let all: Vec<_> = (0..EVENTS).map(|number| delivery(event(number))).collect();
    let done = Arc::new(AtomicUsize::new(0));
    let work: Vec<_> = all
        .chunks(EVENTS / 4)
        .map(|share| {
            let (sink, share, done) = (sink.clone(), share.to_vec(), Arc::clone(&done));
            tokio::spawn(async move {
                for part in share.chunks(BATCH) {
                    at_last(&sink, part, &done).await;
                }
            })
        })
        .collect();
    for share in [1, 2, 3] {
        let so_many = || done.load(Ordering::Relaxed) >= EVENTS / 4 * share - BATCH;
        within(PLENTY, "events to be done", async || so_many()).await;
        ground.server().kill().await;
        ground.server().start().await;
    }
    for work in work {
        work.await.unwrap();
    }
    assert!(ground.close(&sink).await);
    let arrived = ground.arrived().await;
    let ids: std::collections::HashSet<_> = arrived.iter().map(|arrived| arrived.id).collect();
    assert!(all.iter().all(|delivery| ids.contains(&delivery.id())), "nothing is lost");
    assert_eq!(ids.len(), EVENTS, "nothing is there that was not delivered");
    (all, arrived)
}

async fn at_last(sink: &impl Sink, part: &[Delivery], done: &AtomicUsize) {
    let (begun, mut left) = (Instant::now(), part.to_vec());
    while !left.is_empty() {
        assert!(begun.elapsed() < PLENTY, "{} events are not delivered", left.len());
        if !sink.is_healthy() {
            sleep(Duration::from_millis(5)).await;
            continue;
        }
        let mut verdicts = sink.deliver(&left).await.into_iter();
        left.retain(|_| match verdicts.next().unwrap() {
            Ok(()) => {
                done.fetch_add(1, Ordering::Relaxed);
                false
            }
            Err(failure) => {
                let class = failure.class();
                assert!(matches!(class, FailureClass::Unavailable { .. }), "{failure:?}");
                true
            }
        });
    }
}
