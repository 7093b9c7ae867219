//! Runs the capture suite: every case, each way to write.

use super::harness::{CaptureHarness, Database, Face};

/// Runs one case, unless the harness says why it cannot be.
///
/// # Panics
///
/// Where the driver does not do what the case says.
pub async fn run<H: CaptureHarness>(
    name: &str,
    harness: impl AsyncFnOnce() -> H,
    face: Face,
    case: impl AsyncFnOnce(&H, Face),
) {
    let case_alone = name.rsplit("::").next();
    let mut cannot = H::CANNOT.iter().chain(H::Database::CANNOT);
    if cannot.any(|(cannot, _)| *cannot == name || Some(*cannot) == case_alone) {
        return;
    }
    case(&harness().await, face).await;
}

/// Makes a test of each promise. The expression makes a fresh harness; it may await.
#[macro_export]
macro_rules! capture_suite {
    ($harness:expr) => {
        $crate::capture_suite!(guard: $harness);
        $crate::capture_suite!(own: $harness);
    };
    (guard: $harness:expr) => {
        $crate::capture_suite!(@either guard, Guard, $harness;
            hooks_run_after_what_they_wait_for_and_only_then
        );
    };
    (own: $harness:expr) => {
        $crate::capture_suite!(@either own_transaction, Own, $harness;
            what_is_too_much_for_one_write_is_refused_and_costs_nothing_else
            a_connection_needs_a_transaction_whoever_began_it
            a_write_of_many_that_is_dropped_leaves_all_or_none
            an_event_is_settled_in_the_transaction_of_its_effect
            who_waits_for_that_transaction_does_not_keep_it_waiting
            a_hold_that_was_lost_settles_nothing
        );
    };
    // What holds whoever began the transaction, and what else there is.
    (@either $module:ident, $face:ident, $harness:expr; $($case:ident)*) => {
        $crate::capture_suite!(@face $module, $face, $harness;
            a_row_is_seen_by_others_only_after_the_commit
            many_events_in_one_commit_are_whole_and_in_order
            every_value_comes_back_as_it_was
            a_write_does_not_depend_on_the_state_of_the_session
            a_duplicate_id_is_refused_with_its_whole_write
            a_bad_event_is_refused_and_costs_nothing_else
            an_error_of_a_statement_is_never_delivered_over
            a_commit_that_the_database_refuses_was_rolled_back
            a_closed_store_refuses_everything
            a_transaction_ended_by_hand_is_none
            what_is_under_a_rolled_back_savepoint_is_not_delivered
            events_of_a_key_around_a_savepoint_are_delivered_in_order
            a_dropped_savepoint_keeps_nothing
            what_is_dropped_is_rolled_back_and_the_connection_stays_usable
            a_commit_dropped_on_its_way_is_carried_out_or_not_but_never_half
            an_event_is_seen_once_by_each_consumer
            what_is_rolled_back_was_not_seen
            what_was_seen_under_a_savepoint_goes_with_it
            what_cannot_be_remembered_is_refused
            of_many_at_once_one_makes_the_effect
            what_was_seen_long_ago_is_forgotten_in_batches
            $($case)*
        );
    };
    (@face $module:ident, $face:ident, $harness:expr; $($case:ident)*) => {
        mod $module {
            #[allow(unused_imports, reason = "the harness may be named by path")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let face = $crate::capture::Face::$face;
                    let case = $crate::capture::cases::$case;
                    let name = concat!(stringify!($module), "::", stringify!($case));
                    $crate::capture::run(name, async || $harness, face, case).await;
                }
            )*
        }
    };
}
