//! The cases of a relay as tests.

/// Makes two tests of every case in [`relay`](crate::relay), one for each claim mode, each with a
/// harness of its own. The expression makes it, and may await; it is evaluated once for each case.
#[macro_export]
macro_rules! relay_suite {
    ($harness:expr) => {
        mod held {
            #[allow(unused_imports)]
            use super::*;
            $crate::relay_suite! { @both Held, $harness }
            $crate::relay_suite! { @cases Held, $harness;
                holds_are_extended_while_a_handler_runs
                an_event_whose_hold_ran_out_is_not_delivered
                an_event_lost_twice_comes_alone
            }
        }
        mod locked {
            #[allow(unused_imports)]
            use super::*;
            $crate::relay_suite! { @both Locked, $harness }
        }
    };
    (@both $mode:ident, $harness:expr) => {
        $crate::relay_suite! { @cases $mode, $harness;
            a_batch_acknowledges_fails_and_ends
            no_work_is_an_answer_of_its_own
            a_strange_or_second_answer_is_refused
            a_rollback_restores_attempts_and_due_times_exactly
            a_dropped_batch_restores_attempts_and_due_times_exactly
            a_retry_is_due_exactly_at_its_deadline
            the_last_attempt_is_dead
            fifty_poison_events_at_the_head_do_not_stop_the_others
            a_window_hides_no_event_for_good
            consumers_never_get_the_same_event
            process_once_handles_one_batch
            a_relay_works_everything_off_and_counts_it
            a_slow_handler_a_panic_and_a_classified_failure_cost_one_attempt_each
            a_stop_is_not_an_attempt
            a_dropped_run_restores_what_was_in_work
            pending_is_counted_only_when_asked_and_not_too_often
            a_topic_worker_handles_fails_and_finds_no_handler
            a_topic_worker_ends_nothing_by_itself
            consume_one_handles_exactly_one_event
            topics_are_counted_by_the_words_of_the_worker
            two_programs_on_one_table_touch_nothing_of_each_other
        }
    };
    (@cases $mode:ident, $harness:expr; $($case:ident)*) => {$(
        #[test]
        fn $case() {
            $crate::conformance::run(async { $harness }, |probe| async move {
                let mode = sendoff_engine::relay::ClaimMode::$mode;
                $crate::relay::$case(&probe, mode).await;
            });
        }
    )*};
}
