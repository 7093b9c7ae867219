/// Makes every case a test, each for all kinds of nodes that it is about, on nodes of its own: an
/// expression that makes an [`OrdealHarness`](crate::ordeal::OrdealHarness).
#[macro_export]
macro_rules! ordeal_suite {
    ($nodes:expr) => {
        $crate::ordeal_suite! { @cases $nodes;
            /// Fault 6.
            a_node_that_is_cut_off_stops_in_time(Kind::Outbox, Kind::Held, Kind::Locked)
            /// Fault 11.
            a_stopped_process_settles_nothing_it_lost(Kind::Outbox, Kind::Held, Kind::Locked)
            /// Fault 12.
            an_event_that_aborts_its_process_ends_dead_alone(Kind::Outbox, Kind::Held)
            /// Fault 21.
            a_batch_dropped_at_any_await_is_never_half_done(ClaimMode::Held, ClaimMode::Locked)
            /// Fault 14.
            a_node_whose_clock_is_off_changes_nothing(Kind::Outbox, Kind::Held, Kind::Locked)
        }
    };
    (@cases $nodes:expr; $($(#[$fault:meta])* $case:ident($($kind:expr),*))*) => {$(
        $(#[$fault])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use $crate::ordeal::{ClaimMode, Kind};

            tokio::join!($(async { $crate::ordeal::$case(&$nodes, $kind).await }),*);
        }
    )*};
}
