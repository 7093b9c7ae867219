//! Real processes that publish.

use std::env;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Recorded, Topic};
use sendoff_engine::journal::publish::{FnPublisher, PairOptions, Publishing, Which};
use sendoff_mysql::MysqlJournal;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::process::{Node, say};
use sendoff_testkit::wait::{eventually, within};

use super::{Log, fact, journal};
use crate::place::{MARIADB, MYSQL, Place};

const PLENTY: Duration = Duration::from_secs(60);

fn everything() -> Topic {
    Topic::builder("everything").build().unwrap()
}

fn often() -> PairOptions {
    PairOptions { interval: Duration::from_millis(20), ..PairOptions::default() }
}

/// Not a test of its own: this program again, as a node in another process. It says what it publishes,
/// and waits for a line where it was told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(url) = env::var("SENDOFF_TEST_NODE") else { return };
    let journal = Log::new(MysqlJournal::connect(&url).await.unwrap());
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
}

fn leader(place: &Place, told: &[(&str, &str)]) -> Node {
    let told: Vec<_> = told.iter().copied().chain([("SENDOFF_TEST_NODE", &*place.url)]).collect();
    Node::start("journal::failover::node", &told)
}

async fn standby(journal: &Log, latch: &Latch) -> Publishing {
    let pair = Publishing::builder(journal).pair_with(&everything(), latch.publisher(), often());
    pair.start().await.unwrap()
}

async fn append(journal: &Log, count: usize) {
    for _ in 0..count {
        journal.append([fact("moved", &["w=1"])]).await.unwrap();
    }
}

async fn at(journal: &Log) -> u64 {
    let pair = Which::pair(&PairId::new("everything", "p").unwrap());
    journal.publishers().cursors(&pair).await.unwrap()[0].position.get()
}

async fn stored(journal: &Log, position: u64) {
    eventually("the cursor to be stored", async || at(journal).await == position).await;
}

/// Holds J8: with the options everybody has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_within_three_seconds() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let leader = leader(&place, &[]);
        append(&journal, 5).await;
        leader.says("published 5");
        stored(&journal, 5).await;
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
}

/// Holds J8: stopped past its lease and continued, the old leader moves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_leader_cannot_move_the_cursor() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let mut zombie = leader(&place, &[("SENDOFF_TEST_WAITS", "1")]);
    append(&journal, 1).await;
    zombie.says("published 1");
    zombie.signal("-STOP");
    append(&journal, 4).await;
    let latch = Latch::new("p");
    let other = standby(&journal, &latch).await;
    // Its session is there: the whole lease has to run out.
    latch.wait_for(5).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5]);
    stored(&journal, 5).await;
    zombie.signal("-CONT");
    zombie.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    zombie.says("fenced");
    assert_eq!(at(&journal).await, 5);
    append(&journal, 1).await;
    latch.wait_for(6).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5, 6]);
    other.close().await;
}

/// Holds J6: with every connection of it cut, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_skipped_when_connections_are_cut() {
    let place = Place::new().await;
    let writer = journal(&place).await;
    let (log, latch) = (journal(&place).await, Latch::new("p"));
    let node = standby(&log, &latch).await;
    for round in 1..=5_u64 {
        append(&writer, 20).await;
        eventually("some of it", async || latch.distinct().len() as u64 > (round - 1) * 20).await;
        cut(&place).await;
    }
    stored(&writer, 100).await;
    let mut first: Vec<u64> = Vec::new();
    for position in latch.positions() {
        if !first.contains(&position) {
            first.push(position);
        }
    }
    assert!(first.is_sorted() && first.len() == 100, "in order, and none is missing: {first:?}");
    node.close().await;
}

/// Ends every session in this place but its own.
async fn cut(place: &Place) {
    use mysql_async::prelude::Queryable;

    let mut conn = place.conn().await;
    let sessions = format!(
        "select id from information_schema.processlist
          where db = '{}' and id <> connection_id()",
        place.database
    );
    let sessions: Vec<u64> = conn.query(sessions).await.unwrap();
    assert!(!sessions.is_empty());
    for session in sessions {
        // It may be gone already.
        let _ = conn.query_drop(format!("kill {session}")).await;
    }
}
