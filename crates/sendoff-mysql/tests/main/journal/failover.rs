//! Real processes that publish.

use std::env;

use sendoff_mysql::MysqlJournal;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::journal::publish::failover::{self, append, publishing, stored};
use sendoff_testkit::process::Node;
use sendoff_testkit::wait::eventually;

use super::{Log, journal};
use crate::place::{MARIADB, MYSQL, Place};

/// Not a test of its own: this program again, as a node in another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(url) = env::var("SENDOFF_TEST_NODE") else { return };
    failover::play(&Log::new(MysqlJournal::connect(&url).await.unwrap())).await;
}

fn leader(place: &Place, told: &[(&str, &str)]) -> Node {
    let told: Vec<_> = told.iter().copied().chain([("SENDOFF_TEST_NODE", &*place.url)]).collect();
    Node::start("journal::failover::node", &told)
}

/// Holds J8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_within_three_seconds() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (journal, leader) = (journal(&place).await, leader(&place, &[]));
        failover::a_killed_leader_is_replaced_within_three_seconds(&journal, &leader).await;
    }
}

/// Holds J8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_leader_cannot_move_the_cursor() {
    let place = Place::new().await;
    let (journal, mut zombie) = (journal(&place).await, leader(&place, &[(failover::WAITS, "1")]));
    failover::a_stopped_leader_cannot_move_the_cursor(&journal, &mut zombie).await;
}

/// Holds J6: with every connection of it cut, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_skipped_when_connections_are_cut() {
    let place = Place::new().await;
    let writer = journal(&place).await;
    let (log, latch) = (journal(&place).await, Latch::new("p"));
    let node = publishing(&log, latch.publisher()).await;
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
