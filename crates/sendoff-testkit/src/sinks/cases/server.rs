//! A target that is killed, started again, and hangs.

use std::time::Duration;

use sendoff_core::Sink;
use tokio::time::{Instant, sleep};

use super::{PLENTY, SLACK, batch, deliver, delivered, delivered_at_last, is_unavailable, there};
use crate::sinks::{Server, SinkGround};

/// Fault 7: no attempt is used up, however long it lasts, and everything is delivered when it is back.
pub async fn a_target_that_is_down_is_unavailable_and_comes_back<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(60);
    delivered(&sink, &all[..20]).await;
    ground.server().kill().await;
    for part in all[20..].chunks(10) {
        let begun = Instant::now();
        for verdict in deliver(&sink, part).await {
            let failure = verdict.expect_err("a target that is down takes nothing");
            assert!(is_unavailable(&failure), "{failure:?}");
        }
        assert!(begun.elapsed() < ground.deadline() + SLACK, "{:?}", begun.elapsed());
    }
    ground.server().start().await;
    delivered_at_last(&sink, &all[20..]).await;
    assert!(sink.is_healthy());
    there(ground, &all, false).await;
}

/// A process that begins during an outage is no worse off than one that ran before.
pub async fn a_sink_starts_while_its_target_is_down<G: SinkGround>(ground: &G) {
    ground.server().kill().await;
    let sink = ground.sink().await;
    let all = batch(10);
    let verdicts = deliver(&sink, &all).await;
    assert!(verdicts.iter().all(|verdict| verdict.as_ref().is_err_and(is_unavailable)));
    ground.server().start().await;
    delivered_at_last(&sink, &all).await;
    there(ground, &all, false).await;
}

/// Fault 10: connections stay open, and nobody answers. What was under way is not known, and delivered again.
pub async fn a_target_that_hangs_is_given_up_in_time<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(30);
    delivered(&sink, &all[..10]).await;
    ground.server().freeze().await;
    for part in all[10..].chunks(10) {
        let begun = Instant::now();
        for verdict in deliver(&sink, part).await {
            let failure = verdict.expect_err("nobody answered");
            assert!(is_unavailable(&failure), "{failure:?}");
        }
        assert!(begun.elapsed() < ground.deadline() + SLACK, "{:?}", begun.elapsed());
    }
    ground.server().thaw().await;
    delivered_at_last(&sink, &all).await;
    there(ground, &all, false).await;
}

/// Faults 1, 8: killed and started again while batches are under way, three times. What was said to be done is there, what was
/// not is delivered again under the same id, and what that makes twice is the same.
pub async fn a_target_killed_in_mid_batch_loses_nothing<G: SinkGround>(ground: &G) {
    nothing_is_lost_while(ground, (6_000, 3), async |server| server.kill().await).await;
}

/// Fault 8: the same where it ends in good order, as for an upgrade, and takes leave of those who send to it.
pub async fn a_target_that_restarts_loses_nothing<G: SinkGround>(ground: &G) {
    nothing_is_lost_while(ground, (2_000, 1), async |server| server.stop().await).await;
}

/// Batches are under way while the target is ended in this way, so often, and started again.
async fn nothing_is_lost_while<G: SinkGround>(
    ground: &G,
    (events, times): (usize, usize),
    end: impl AsyncFn(&dyn Server),
) {
    let sink = ground.sink().await;
    let all = batch(events);
    let work: Vec<_> = all
        .chunks(events / 4)
        .map(|share| {
            let (sink, share) = (sink.clone(), share.to_vec());
            tokio::spawn(async move {
                for part in share.chunks(25) {
                    delivered_at_last(&sink, part).await;
                }
            })
        })
        .collect();
    let (begun, mut ended) = (Instant::now(), 0);
    while ended < times && work.iter().any(|work| !work.is_finished()) {
        assert!(begun.elapsed() < PLENTY * 4, "it does not go on");
        // Long enough for batches to be under way; which of them are hit is chance.
        sleep(Duration::from_millis(40)).await;
        end(ground.server()).await;
        ground.server().start().await;
        ended += 1;
    }
    for work in work {
        work.await.unwrap();
    }
    assert!(ended > 0, "nothing ended in the middle");
    there(ground, &all, false).await;
}

/// I3: done is durable.
pub async fn what_is_done_outlives_a_kill<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(200);
    delivered(&sink, &all).await;
    ground.server().kill().await;
    ground.server().start().await;
    there(ground, &all, true).await;
}
