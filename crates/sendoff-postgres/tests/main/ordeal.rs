//! What nodes go through on a real server.

use sendoff_engine::relay::ClaimMode;
use sendoff_testkit::ordeal::{self, Kind};

use crate::soak::nodes;

/// Fault 6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_stops_in_time() {
    let case =
        async |kind| ordeal::a_node_that_is_cut_off_stops_in_time(&nodes().await, kind).await;
    tokio::join!(case(Kind::Outbox), case(Kind::Held), case(Kind::Locked));
}

/// Fault 11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_settles_nothing_it_lost() {
    let case =
        async |kind| ordeal::a_stopped_process_settles_nothing_it_lost(&nodes().await, kind).await;
    tokio::join!(case(Kind::Outbox), case(Kind::Held), case(Kind::Locked));
}

/// Fault 12.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_aborts_its_process_ends_dead_alone() {
    let case = async |kind| {
        ordeal::an_event_that_aborts_its_process_ends_dead_alone(&nodes().await, kind).await;
    };
    tokio::join!(case(Kind::Outbox), case(Kind::Held));
}

/// Fault 21.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_dropped_at_any_await_is_never_half_done() {
    let case = async |mode| {
        ordeal::a_batch_dropped_at_any_await_is_never_half_done(&nodes().await, mode).await;
    };
    tokio::join!(case(ClaimMode::Held), case(ClaimMode::Locked));
}

/// Fault 14.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_off_changes_nothing() {
    let case =
        async |kind| ordeal::a_node_whose_clock_is_off_changes_nothing(&nodes().await, kind).await;
    tokio::join!(case(Kind::Outbox), case(Kind::Held), case(Kind::Locked));
}
