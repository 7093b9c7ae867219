//! The end of a sink.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::{PLENTY, batch, deliver, delivered, delivered_at_last, is_unavailable, there};
use crate::sinks::SinkGround;

/// Fault 26: closing lets what is under way end, and what was not done is delivered by another sink.
pub async fn closing_under_load_loses_nothing_that_was_done<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(2_000);
    let begun = Arc::new(Notify::new());
    let work: Vec<_> = all
        .chunks(500)
        .map(|share| {
            let (sink, share, begun) = (sink.clone(), share.to_vec(), begun.clone());
            tokio::spawn(async move {
                let mut left = Vec::new();
                for part in share.chunks(20) {
                    for (delivery, verdict) in part.iter().zip(deliver(&sink, part).await) {
                        match verdict {
                            Ok(()) => begun.notify_one(),
                            Err(failure) => {
                                assert!(is_unavailable(&failure), "{failure:?}");
                                left.push(delivery.clone());
                            }
                        }
                    }
                }
                left
            })
        })
        .collect();
    // Some of it is done, and more under way.
    timeout(PLENTY, begun.notified()).await.expect("something is delivered");
    let begun = Instant::now();
    let closed = timeout(PLENTY, ground.close(&sink)).await.expect("closing ends");
    assert!(closed, "cut off after {:?}", begun.elapsed());
    let mut left = Vec::new();
    for work in work {
        left.extend(work.await.unwrap());
    }
    // What was said to be done is there when it is closed.
    let done: Vec<_> =
        all.iter().filter(|one| left.iter().all(|other| other.id() != one.id())).collect();
    let arrived = super::counted(&ground.arrived().await);
    assert!(done.iter().all(|done| arrived.contains_key(&done.id())), "done, and not there");
    delivered_at_last(&ground.sink().await, &left).await;
    there(ground, &all, false).await;
}

/// Its events wait for another.
pub async fn a_closed_sink_takes_nothing_and_says_so<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(2);
    delivered(&sink, &all[..1]).await;
    assert!(ground.close(&sink).await);
    for verdict in deliver(&sink, &all[1..]).await {
        assert!(is_unavailable(&verdict.unwrap_err()));
    }
    assert!(ground.close(&sink).await, "closing twice is no mistake");
    there(ground, &all[..1], true).await;
}
