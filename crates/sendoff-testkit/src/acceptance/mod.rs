//! What every outbox does, whatever its store and its driver.
//!
//! A pair of store and driver joins with an [`OutboxHarness`](crate::capture::OutboxHarness) and one line,
//! `sendoff_testkit::acceptance_suite!(harness)`; every case becomes a test of its own, once for
//! each of the two ways to write: through the guard, and into a transaction of the application's.
//! `acceptance_suite!(own: harness)` is for a driver that has only the second.

pub mod cases;
mod harness;
mod inbox;

pub use async_trait::async_trait;
pub use harness::{Application, End};
pub use inbox::{Inbox, SHORT_GRACE, last_order};

pub use crate::capture::Face;

/// Makes a test of each case. The expression makes a fresh harness; it may await.
#[macro_export]
macro_rules! acceptance_suite {
    ($harness:expr) => {
        $crate::acceptance_suite!(@face guard, Guard, $harness;
            atomicity
            commit_and_fast_path
            queue_overflow_downgrade
            retry_then_dead
            type_safe_event_type
            type_safe_aggregate_type
            write_all_keeps_order_and_returns_the_ids
            an_event_arrives_as_it_was_written
            writer_only_leaves_delivery_to_others
            a_process_that_only_writes_counts_what_it_writes
            one_call_sends_an_event_without_a_transaction
            what_cannot_be_sent_leaves_nothing_behind
            a_delayed_event_skips_the_hot_lane
            no_duplicate_without_a_fault
            who_waits_on_another_node_hears_of_every_end
        );
        $crate::acceptance_suite!(own: $harness);
    };
    (own: $harness:expr) => {
        $crate::acceptance_suite!(@face own_transaction, Own, $harness;
            atomicity
            commit_and_fast_path
            queue_overflow_downgrade
            retry_then_dead
            write_all_keeps_order_and_returns_the_ids
            a_process_that_only_writes_counts_what_it_writes
            a_receipt_released_after_a_rollback_delivers_nothing
            a_forgotten_receipt_costs_latency_only
        );
    };
    (@face $module:ident, $face:ident, $harness:expr; $($case:ident)*) => {
        mod $module {
            #[allow(unused_imports, reason = "the harness may be named by path")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let harness = $crate::acceptance::Application::open($harness).await;
                    let face = $crate::acceptance::Face::$face;
                    $crate::acceptance::cases::$case(&harness, face).await;
                }
            )*
        }
    };
}
