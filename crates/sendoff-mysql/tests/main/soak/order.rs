//! Order within keys, while nodes come and go and an operator is at work.

use sendoff_testkit::ordeal;

use super::nodes;

/// Holds O1, O2, K1, K2, attacks 11, 15 and 26: hot and cold events of the same keys, in several processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordered_events_stay_in_order_whatever_happens() {
    ordeal::ordered_events_stay_in_order_whatever_happens(&nodes().await, 15).await;
}
