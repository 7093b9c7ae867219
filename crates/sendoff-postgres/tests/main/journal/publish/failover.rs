//! Real processes.

use std::env;

use sendoff_testkit::journal::publish::failover;

use super::journal;
use crate::place::Place;
use crate::process::node_of;

const PATH: &str = "journal::publish::failover::node";

/// Not a test of its own: this program again, as a node in another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(schema) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::in_schema(env::var("SENDOFF_POSTGRES_URL").unwrap(), schema);
    failover::play(&journal(&place).await).await;
    // The schema is the parent's.
    std::mem::forget(place);
}

/// Holds J8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_within_three_seconds() {
    let place = Place::new();
    let (journal, leader) = (journal(&place).await, node_of(PATH, &place, &[]));
    failover::a_killed_leader_is_replaced_within_three_seconds(&journal, &leader).await;
}

/// Holds J8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_leader_cannot_move_the_cursor() {
    let place = Place::new();
    let (journal, mut zombie) = (journal(&place).await, node_of(PATH, &place, &[failover::WAITS]));
    failover::a_stopped_leader_cannot_move_the_cursor(&journal, &mut zombie).await;
}
