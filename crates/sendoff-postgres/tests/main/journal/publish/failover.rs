//! Real processes.

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::journal::Recorded;
use sendoff_engine::journal::publish::{FnPublisher, PublishOptions, Publishing};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::process::say;
use sendoff_testkit::wait::within;

use super::{append, at, everything, journal, often, stored};
use crate::place::Place;
use crate::process::node_of;

const PLENTY: Duration = Duration::from_secs(60);
const PATH: &str = "journal::publish::failover::node";

/// Not a test of its own: this program again, as a node in another process. It says what it publishes,
/// and waits for a line where it was told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(schema) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::in_schema(env::var("SENDOFF_POSTGRES_URL").unwrap(), schema);
    let journal = journal(&place).await;
    let waits = env::var("SENDOFF_TEST_WAITS").is_ok();
    let publisher = FnPublisher::new("p", move |facts: Vec<Arc<Recorded>>| async move {
        for fact in &facts {
            say(&format!("published {}", fact.position));
        }
        if waits {
            let line = || std::io::stdin().read_line(&mut String::new());
            tokio::task::spawn_blocking(line).await??;
        }
        Ok(())
    });
    let node = Publishing::builder(&journal)
        .pair_with(&everything(), Arc::new(publisher), often())
        .start()
        .await
        .unwrap();
    within(PLENTY, "a fence", async || node.statistics().fenced > 0).await;
    say("fenced");
    drop(node);
    // The schema is the parent's.
    std::mem::forget(place);
}

async fn standby(journal: &super::Log, latch: &Latch) -> Publishing {
    Publishing::builder(journal)
        .options(PublishOptions::default())
        .pair_with(&everything(), latch.publisher(), often())
        .start()
        .await
        .unwrap()
}

/// Holds J8: with the options everybody has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_within_three_seconds() {
    let place = Place::new();
    let journal = journal(&place).await;
    let leader = node_of(PATH, &place, &[]);
    append(&journal, 5).await;
    leader.says("published 5");
    stored(&journal, "p", 5).await;
    let latch = Latch::new("p");
    let other = standby(&journal, &latch).await;
    leader.signal("-KILL");
    let killed = Instant::now();
    append(&journal, 1).await;
    latch.wait_for(1).await;
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(latch.positions(), [6], "it goes on where the other was");
    assert_eq!(other.statistics().failovers, 1);
    other.close().await;
}

/// Holds J8: stopped past its lease and continued, the old leader moves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_leader_cannot_move_the_cursor() {
    use std::io::Write;

    let place = Place::new();
    let journal = journal(&place).await;
    let mut zombie = node_of(PATH, &place, &["SENDOFF_TEST_WAITS"]);
    append(&journal, 1).await;
    zombie.says("published 1");
    zombie.signal("-STOP");
    append(&journal, 4).await;
    let latch = Latch::new("p");
    let other = standby(&journal, &latch).await;
    // Its session is there: the whole lease has to run out.
    latch.wait_for(5).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5]);
    stored(&journal, "p", 5).await;
    zombie.signal("-CONT");
    zombie.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    zombie.says("fenced");
    assert_eq!(at(&journal, "p").await, 5);
    append(&journal, 1).await;
    latch.wait_for(6).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5, 6]);
    other.close().await;
}
