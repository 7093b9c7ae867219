//! The cases of publishing as tests.

/// Makes one test of every case in [`publish`](crate::journal::publish), each with a harness of its
/// own. The expression makes it, and may await; it is evaluated once for each case.
#[macro_export]
macro_rules! publish_suite {
    ($harness:expr) => {
        $crate::publish_suite! { @cases $harness;
            a_publisher_that_fails_touches_no_other_and_goes_on_by_itself
            topics_select_by_types_and_by_required_any_of_and_exact_tags
            included_publishers_log_and_count
            batches_have_a_hundred_facts_unless_it_is_said
            a_pair_begins_where_it_is_told_to
            a_pair_before_the_window_reads_for_itself_and_rejoins
            a_thousand_pairs_work_on_one_node
            a_restart_goes_on_at_the_stored_position
            a_pair_has_its_own_interval
            what_is_appended_here_is_published_at_once
            a_pair_that_finds_nothing_looks_less_and_less
            what_another_process_appends_is_published
            everything_is_published_once_and_in_order_while_nodes_come_and_go
            nothing_is_lost_when_nodes_die
            gaps_far_from_the_end_hide_nothing
            positions_that_are_given_again_are_published_again
            a_busy_publisher_holds_no_other_back_when_positions_go_back
            who_follows_a_dead_node_goes_on_where_the_cursor_is
            an_old_leader_moves_nothing
            what_an_operator_wrote_is_not_written_over
            a_cursor_that_somebody_has_locked_holds_no_other_up
            closing_does_not_wait_for_a_cursor_that_somebody_has_locked
            nodes_that_somebody_has_locked_go_on
            those_who_wait_for_one_key_leave_room_for_all_others
            one_leads_all_where_that_is_asked_for
            leadership_errors_and_lag_are_measured_for_each_pair
            pairs_are_paused_and_go_on_where_they_were
            plain_sql_pauses_resumes_resets_and_puts_back
            a_cursor_is_put_to_a_position_or_a_time
            a_reset_clears_the_errors_of_a_pair_that_waits
            poison_is_parked_listed_retried_and_discarded
            what_was_parked_is_tried_again_by_itself
            a_fact_that_fails_while_others_do_not_is_poison
            an_outage_that_ends_during_a_probe_parks_nothing
            an_outage_under_load_parks_nothing_and_disorders_nothing
            a_pair_that_waits_at_a_fact_says_where_and_since_when
            a_pair_in_order_stops_as_failed_and_goes_on_when_it_is_reset
            what_is_parked_waits_while_its_pair_is_paused
            each_fact_has_its_effect_once_whatever_its_publisher_says
            a_leader_that_was_replaced_settles_nothing
            a_pair_has_caught_up_when_it_has_passed_what_was_appended_before
        }
    };
    (@cases $harness:expr; $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::journal::run(async { $harness }, $crate::journal::publish::cases::$case);
            }
        )*
    };
}
