//! Runs the conformance suite, each case on a table of its own.

use std::future::Future;

use super::Probe;
use super::harness::StoreHarness;
use crate::wait::on_threads;

/// Runs one case on a fresh harness, on threads of its own.
///
/// # Panics
///
/// Where the store does not do what the case says.
pub fn run<H, F>(harness: impl Future<Output = H>, case: impl FnOnce(Probe<H>) -> F)
where
    H: StoreHarness,
    F: Future<Output = ()>,
{
    on_threads(async { case(Probe::new(harness.await)).await });
}

/// The same, where there is one: whoever cannot make it has said so.
///
/// # Panics
///
/// Where the store does not do what the case says.
pub fn run_if_there<H, F>(
    harness: impl Future<Output = Option<H>>,
    case: impl FnOnce(Probe<H>) -> F,
) where
    H: StoreHarness,
    F: Future<Output = ()>,
{
    on_threads(async {
        if let Some(harness) = harness.await {
            case(Probe::new(harness)).await;
        }
    });
}

/// Makes one test of every case about a clock that steps back. The expression makes an `Option` of a
/// [`ClockHarness`](crate::conformance::ClockHarness).
#[macro_export]
macro_rules! clock_suite {
    ($harness:expr) => {
        $crate::clock_suite! { @cases $harness;
            a_hold_from_before_the_clock_stepped_back_is_rescued
            rows_from_before_the_clock_stepped_back_are_rescued
            a_holder_keeps_what_it_holds_while_the_clock_steps_back
            a_node_delivers_what_was_written_and_held_while_the_clock_was_ahead
        }
    };
    (@cases $harness:expr; $($case:ident)*) => {$(
        #[test]
        fn $case() {
            $crate::conformance::run_if_there(async { $harness }, |probe| async move {
                $crate::conformance::cases::$case(&probe).await;
            });
        }
    )*};
}

/// Makes one test of every case about order within a key, each with a harness of its own. The expression
/// makes it, and may await.
#[macro_export]
macro_rules! order_suite {
    ($harness:expr) => {
        $crate::store_suite! { @cases $harness;
            a_row_with_a_key_is_in_line_and_no_claim_sees_it
            a_walk_holds_keys_and_their_runs_are_in_order
            a_walk_is_bounded_and_goes_on_where_it_ended
            keys_that_look_alike_are_different_keys
            two_walks_share_nothing
            a_key_whose_holder_vanished_is_taken_after_its_hold
            an_event_lost_alone_is_counted_and_becomes_a_suspect
            a_key_taken_again_by_its_holder_has_another_token
            an_extension_keeps_the_token_of_a_key
            a_run_that_is_over_takes_its_key_off_the_list
            what_arrives_while_a_key_is_held_is_found_afterwards
            a_failed_head_waits_with_its_key
            a_dead_head_parks_its_key_and_both_ways_lead_out
            a_dead_head_that_is_skipped_lets_others_follow
            an_end_of_a_run_sent_twice_is_carried_out_once
            ends_of_several_keys_are_decided_one_by_one
            a_row_held_by_itself_cuts_a_run
            a_row_held_by_itself_is_in_line_when_it_is_released
            a_row_from_memory_is_confirmed_with_what_lies_below_it
            a_dead_row_that_was_held_by_itself_parks_its_key
            nothing_runs_of_a_key_that_was_parked_after_it_was_listed
            a_key_whose_head_is_left_out_is_not_taken
            keys_that_are_left_out_hide_no_others
            a_shelved_row_is_always_listed
            a_locked_row_makes_its_key_busy_and_no_other
            no_purge_deletes_a_dead_event_that_parks_its_key
            rescue_leaves_rows_in_line_alone
            runs_are_bounded_in_bytes
            parked_keys_are_listed_in_pages
            a_parked_key_says_why_and_what_waits_in_it
            a_key_stands_as_it_is
            the_events_of_a_key_are_counted_up_to_a_bound
            a_key_that_is_resumed_goes_on_without_its_dead_event
            a_key_is_resumed_only_without_the_event_that_was_named
            of_operators_who_resume_a_key_at_once_one_did_it
            a_dead_event_that_parks_no_key_any_more_may_be_purged
            of_operators_at_odds_over_a_dead_event_one_decides
            a_key_that_is_held_stays_held_whatever_operators_do
            a_settlement_beside_a_takeover_comes_first_or_is_fenced
            a_zombie_settles_nothing_of_a_key_that_was_taken_over
            what_commits_late_is_found
            what_is_put_in_line_late_is_found
            a_row_shelved_beside_the_end_of_its_key_is_not_left_behind
            a_key_listed_beside_the_end_of_its_hot_row_is_looked_at_soon
            of_a_run_with_one_killer_only_that_becomes_a_suspect
            events_of_one_write_keep_their_order_within_each_key
            shelving_settlements_and_claims_are_in_nobody_s_way
            what_lies_below_is_seen_at_once
        }
    };
}

/// Makes one test of every case about claims that are shared among tenants, each with a harness of its own, whose
/// store has the index for it. The expression makes it, and may await.
#[macro_export]
macro_rules! fair_suite {
    ($harness:expr) => {
        $crate::store_suite! { @cases $harness;
            tenants_are_walked_over_in_a_circle
            a_shared_claim_gives_each_tenant_its_share
            a_shared_claim_is_bounded_in_bytes
            a_shared_claim_leaves_suspects_out
            a_flood_of_one_tenant_keeps_no_other_waiting
            weights_decide_how_much_each_tenant_gets
            events_without_a_tenant_count_as_one
            a_tenant_alone_fills_every_batch
            shared_claims_lose_nothing_and_take_nothing_twice
        }
    };
}

/// Makes one test of every case in [`conformance`](crate::conformance), each with a harness of its
/// own. The expression makes it, and may await; it is evaluated once for each case.
#[macro_export]
macro_rules! store_suite {
    ($harness:expr) => {
        $crate::store_suite! { @cases $harness;
            a_rolled_back_write_leaves_nothing
            a_new_row_is_new_untried_and_due
            a_row_born_held_is_invisible_until_its_grace_is_over
            a_row_born_held_names_its_holder_and_token
            a_delayed_row_is_visible_when_its_delay_is_over
            rows_of_one_write_keep_their_order
            a_duplicate_id_is_refused_with_its_whole_write
            a_write_of_nothing_is_no_error
            every_field_comes_back_as_it_was_written
            payloads_come_back_to_the_byte
            the_largest_payload_comes_back_to_the_byte
            a_claim_takes_the_oldest_due_up_to_its_limit
            a_retry_is_claimed_in_the_order_of_its_due_time
            a_claim_names_its_token_and_the_row_its_holder
            a_held_row_is_not_claimed_again_until_its_hold_is_over
            concurrent_claimers_never_share_a_row
            a_claim_of_nothing_is_empty
            young_rows_are_skipped_when_asked
            a_window_narrows_a_claim_to_rows_created_within_it
            a_claim_leaves_out_the_kinds_it_is_told_to
            a_claim_leaves_out_the_types_it_is_told_to
            a_claim_is_bounded_in_bytes
            a_claim_begins_where_it_is_told
            counts_at_their_bound_stop_no_claim
            terminal_rows_are_never_claimed
            a_row_lost_by_a_vanished_holder_counts_one_attempt
            a_row_born_held_by_a_vanished_writer_is_lost
            a_row_lost_by_its_claimer_is_not_counted
            a_settled_row_is_not_lost
            a_row_lost_twice_is_a_suspect
            failures_do_not_make_a_suspect
            a_released_suspect_stays_one
            a_row_is_no_suspect_to_its_own_holder
            done_is_recorded_or_deleted
            a_retry_stores_count_error_and_due_time
            an_event_that_waits_says_since_when
            a_delayed_event_remembers_when_it_was_first_due
            dead_stores_count_and_error
            a_released_row_is_visible_at_once_and_as_it_was
            a_restored_row_is_due_exactly_when_it_was
            a_restored_suspect_stays_one
            a_settlement_sent_twice_is_carried_out_once
            terminal_rows_never_change
            error_text_is_cut_on_a_character_boundary
            a_zombie_cannot_settle_after_its_hold_moved
            a_hold_that_ran_out_untaken_can_still_be_settled
            a_batch_settles_what_is_held_and_says_what_it_was
            extending_gives_a_new_token_and_the_old_one_is_stale
            an_extended_hold_outlasts_the_first
            every_extension_gives_another_token
            extending_skips_what_is_not_held
            a_row_born_held_can_be_extended_and_settled
            confirm_names_exactly_what_is_held_by_that_token
            rescue_frees_impossible_holds_and_no_delays
            a_locked_row_is_busy_and_the_others_of_its_batch_are_settled
            a_busy_row_is_settled_by_the_same_token_when_its_lock_is_gone
            a_locked_row_is_not_extended_and_keeps_its_token
            a_locked_row_is_passed_by_when_others_are_claimed
            a_locked_row_is_held_again_by_whoever_waits_for_it
            a_locked_row_is_waited_for_no_longer_than_asked
            counts_tell_the_rows_of_each_status
            a_peek_shows_what_comes_next_and_takes_nothing
            the_oldest_lag_counts_from_the_due_time
            the_oldest_undelivered_event_is_late_whatever_it_waits_for
            of_more_rows_than_are_looked_at_the_least_is_said
            the_first_due_time_hides_nothing
            topics_count_events_by_type_and_status
            counters_of_what_ended_outlive_its_rows
            settlements_of_many_types_never_deadlock
            an_unknown_id_is_not_found
            a_store_with_its_tables_is_ready
            nothing_to_lock_is_an_answer_of_its_own
            locking_writes_nothing_and_takes_the_oldest_due
            two_locked_batches_never_share_a_row
            a_lock_proves_nothing_outside_of_its_transaction
            locked_rows_are_not_claimed
            a_rolled_back_batch_leaves_everything_as_it_was
            a_dropped_batch_leaves_everything_as_it_was
            a_committed_batch_stores_every_outcome
            a_locked_retry_is_due_by_the_clock_of_its_settlement
            a_locked_row_that_was_lost_counts_its_loss_when_it_is_settled
            a_window_narrows_a_lock_too
            a_lock_is_bounded_in_bytes_and_begins_where_it_is_told
            a_lock_leaves_out_the_types_it_is_told_to
            a_pause_is_kept_with_who_and_why_until_it_is_resumed
            a_pause_is_one_however_often_it_is_ordered
            every_change_of_a_pause_is_in_the_audit
            pauses_have_a_limit
            a_pause_is_heard_of_within_a_second
            what_nodes_handle_is_known_for_a_while
            a_lock_leaves_out_the_kinds_it_is_told_to
            a_lock_that_is_not_awaited_to_its_end_keeps_nothing
            purge_deletes_only_old_done_rows
            purge_takes_old_dead_rows_when_asked
            purge_stops_at_its_limit
            purge_deletes_what_ended_before_a_moment
            letters_are_found_by_what_is_asked_for
            pages_of_letters_neither_repeat_nor_miss_any
            letters_are_counted_up_to_a_limit
            a_requeued_letter_is_new_and_due_at_once
            a_zombie_cannot_settle_what_was_requeued
            a_discarded_letter_is_gone_and_remembered
            only_dead_letters_are_changed
            a_letter_that_died_again_is_another
            a_locked_letter_is_busy_and_the_others_are_changed
            letters_are_requeued_once_by_whomever
            the_audit_is_read_from_its_end
            the_audit_is_forgotten_in_batches
            a_record_shows_every_column
            an_event_stands_where_it_was_left
            what_was_committed_before_a_horizon_is_within_it
            a_horizon_leaves_out_what_is_still_delayed
            delivered_events_are_found_by_what_is_asked_for
            pages_of_delivered_events_neither_repeat_nor_miss_any
            a_page_of_delivered_events_is_bounded_in_bytes
            what_is_not_delivered_is_not_replayed
            few_among_many_delivered_events_are_found_step_by_step
        }
    };
    (@cases $harness:expr; $($case:ident)*) => {$(
        #[test]
        fn $case() {
            $crate::conformance::run(async { $harness }, |probe| async move {
                $crate::conformance::cases::$case(&probe).await;
            });
        }
    )*};
}
