//! Runs the journal suite, each case on a journal of its own.

use std::future::Future;

use super::harness::JournalHarness;
use crate::wait::on_threads;

/// Runs one case on a fresh harness, on threads of its own.
///
/// # Panics
///
/// Where the journal does not do what the case says.
pub fn run<H, F>(harness: impl Future<Output = H>, case: impl FnOnce(H) -> F)
where
    H: JournalHarness,
    F: Future<Output = ()>,
{
    on_threads(async { case(harness.await).await });
}

/// Makes one test of every case in [`journal`](crate::journal), each with a harness of its own. The
/// expression makes it, and may await; it is evaluated once for each case.
#[macro_export]
macro_rules! journal_suite {
    ($harness:expr) => {
        $crate::journal_suite! { @cases $harness;
            facts_come_back_as_they_were_appended
            facts_are_found_by_types_and_tags_above_a_position
            a_read_goes_on_over_its_pages
            what_is_appended_in_a_transaction_ends_with_it
            a_conflict_is_typed_names_the_position_and_stores_nothing
            a_condition_that_was_read_in_another_run_of_the_server_does_not_hold
            an_append_that_is_repeated_is_there_once
            another_fact_under_the_same_id_is_refused
            the_same_append_twice_at_once_is_there_once
            models_are_read_together_and_what_they_asked_for_is_the_condition
            of_two_conflicting_appends_exactly_one_wins
            commands_run_again_when_others_were_quicker
            commands_decided_under_locks_wait_for_their_turn
            commands_that_lock_crosswise_try_again_under_locks
            a_command_that_is_repeated_counts_once
            appends_whose_conditions_cross_do_not_deadlock
            a_model_is_made_from_its_last_closing_on
            a_decision_under_locks_sees_all_that_came_since_the_last
            what_is_read_from_the_last_closing_on_is_bounded_in_bytes
            a_tail_passes_on_everything_in_order
            a_tail_from_now_sees_what_comes
            what_is_read_at_once_is_bounded_in_bytes
            nothing_is_lost_nothing_comes_twice_and_all_is_in_order
        }
    };
    // For a driver whose transactions can be appended in: the cases that go through it.
    (transactions: $harness:expr) => {
        $crate::journal_suite! { @cases $harness;
            what_is_appended_in_a_transaction_ends_with_it
            facts_appended_in_a_transaction_come_back_as_they_were
            a_large_append_in_a_transaction_is_whole_and_in_order
            a_savepoint_that_is_rolled_back_takes_its_facts_with_it
            after_a_conflict_the_transaction_goes_on
            a_condition_that_was_read_in_another_run_of_the_server_does_not_hold
            an_append_that_is_repeated_is_there_once
            another_fact_under_the_same_id_is_refused_in_a_transaction
            a_cursor_moves_with_the_transaction_or_not_at_all
        }
    };
    // For databases where a transaction may have an old snapshot.
    (snapshots: $harness:expr) => {
        $crate::journal_suite! { @cases $harness;
            a_condition_is_refused_where_the_snapshot_is_old
        }
    };
    (@cases $harness:expr; $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::journal::run(async { $harness }, $crate::journal::cases::$case);
            }
        )*
    };
}

/// Makes one test of every case of retention, as [`journal_suite!`] does.
#[macro_export]
macro_rules! journal_retain_suite {
    ($harness:expr) => {
        $crate::journal_suite! { @cases $harness;
            nothing_goes_that_a_cursor_has_not_passed_whatever_its_status
            what_was_parked_stays_until_it_is_settled
            the_newest_and_the_young_stay
            a_dry_run_changes_nothing
            what_is_left_is_found_and_positions_go_on
            a_decision_under_locks_is_made_of_what_is_left
            without_a_bound_nothing_goes
            a_pass_that_is_cancelled_says_so
        }
    };
}
