//! Leaders in processes of their own, which are killed and stopped.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a journal that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

use std::env;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::Delivery;
use sendoff_core::Sink;
use sendoff_core::journal::Topic;
use sendoff_core::journal::publish::PairId;
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{PairOptions, PublishStore, Publishing, Which};
use sendoff_engine::sink::BatchSink;

use crate::journal::Latch;
use crate::journal::facts::fact;
use crate::process::{Node, say};
use crate::wait::{eventually, within};

/// Tells [`play`] to wait for a line after it published.
pub const WAITS: &str = "SENDOFF_TEST_WAITS";
const PLENTY: Duration = Duration::from_secs(60);

/// What a leader does: it says what it publishes, and waits for a line where it was [told to](WAITS),
/// until it is fenced.
pub async fn play<S: PublishStore>(journal: &Journal<S>) {
    let waits = env::var(WAITS).is_ok();
    let publisher = BatchSink::new("p", move |deliveries: Vec<Delivery>| async move {
        for position in deliveries.iter().filter_map(Delivery::position) {
            say(&format!("published {position}"));
        }
        if waits {
            let line = || std::io::stdin().read_line(&mut String::new());
            tokio::task::spawn_blocking(line).await??;
        }
        Ok(())
    });
    let node = publishing(journal, Arc::new(publisher)).await;
    within(PLENTY, "a fence", async || node.statistics().fenced > 0).await;
    say("fenced");
}

/// A node with the options everybody has, for one pair.
pub async fn publishing<S: PublishStore>(
    journal: &Journal<S>,
    publisher: Arc<dyn Sink>,
) -> Publishing {
    let topic = Topic::builder("everything").build().unwrap();
    let often = PairOptions { interval: Duration::from_millis(20), ..PairOptions::default() };
    Publishing::builder(journal).pair_with(&topic, publisher, often).start().await.unwrap()
}

/// Appends so many facts.
pub async fn append<S: PublishStore>(journal: &Journal<S>, count: usize) {
    for _ in 0..count {
        journal.append([fact("moved", &["w=1"])]).await.unwrap();
    }
}

async fn at<S: PublishStore>(journal: &Journal<S>) -> u64 {
    let pair = Which::pair(&PairId::new("everything", "p").unwrap());
    journal.publishers().cursors(&pair).await.unwrap()[0].position.get()
}

/// Waits until the pair's cursor is there.
pub async fn stored<S: PublishStore>(journal: &Journal<S>, position: u64) {
    eventually("the cursor to be stored", async || at(journal).await == position).await;
}

/// Holds J8: with the options everybody has.
pub async fn a_killed_leader_is_replaced_within_three_seconds<S: PublishStore>(
    journal: &Journal<S>,
    leader: &Node,
) {
    append(journal, 5).await;
    leader.says("published 5");
    stored(journal, 5).await;
    let latch = Latch::new("p");
    let other = publishing(journal, latch.publisher()).await;
    leader.signal("-KILL");
    let killed = Instant::now();
    append(journal, 1).await;
    latch.wait_for(1).await;
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(latch.positions(), [6], "it goes on where the other was");
    assert_eq!(other.statistics().failovers, 1);
    other.close().await;
}

/// Holds J8: stopped past its lease and continued, the old leader moves nothing. It [waits](WAITS).
pub async fn a_stopped_leader_cannot_move_the_cursor<S: PublishStore>(
    journal: &Journal<S>,
    zombie: &mut Node,
) {
    append(journal, 1).await;
    zombie.says("published 1");
    zombie.signal("-STOP");
    append(journal, 4).await;
    let latch = Latch::new("p");
    let other = publishing(journal, latch.publisher()).await;
    // Its session is there: the whole lease has to run out.
    latch.wait_for(5).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5]);
    stored(journal, 5).await;
    zombie.signal("-CONT");
    zombie.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    zombie.says("fenced");
    assert_eq!(at(journal).await, 5);
    append(journal, 1).await;
    latch.wait_for(6).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5, 6]);
    other.close().await;
}
