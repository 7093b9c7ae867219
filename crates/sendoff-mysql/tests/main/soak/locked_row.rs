//! One row locked by somebody else.

use sendoff_testkit::ordeal;

use super::nodes;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_locked_row_delays_itself_only() {
    ordeal::one_locked_row_delays_itself_only(&nodes().await).await;
}
