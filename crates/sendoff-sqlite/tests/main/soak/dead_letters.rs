//! Dead letters are requeued while every handler still fails.

use sendoff_testkit::letters::{
    a_sweep_ends_while_handlers_still_fail, a_sweep_keeps_the_order_of_keys, soaked,
};

use crate::suites::File;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_ends() {
    a_sweep_ends_while_handlers_still_fail(&File::in_time().await, soaked()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_of_keys_keeps_their_order() {
    a_sweep_keeps_the_order_of_keys(&File::in_time().await, soaked()).await;
}
