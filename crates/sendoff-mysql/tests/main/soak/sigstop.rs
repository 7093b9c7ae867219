//! Processes of ours that are stopped at a random moment.

use std::env;

use sendoff_testkit::ordeal::{self, Kind};

use super::{nodes, options};
use crate::place::Place;

/// Not a test of its own: this program again, as a node in another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Some(kind) = Kind::of_this_process() else { return };
    let url = env::var("SENDOFF_TEST_NODE").unwrap();
    let store = Place::of_another(url).store_with(options()).await;
    ordeal::play(kind, store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_processes_stop_nobody_else() {
    ordeal::stopped_processes_of_any_kind_stop_nobody_else(nodes).await;
}
