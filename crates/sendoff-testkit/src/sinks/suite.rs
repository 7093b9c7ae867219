//! Runs the suite of sinks, each case on a ground of its own.

use std::future::Future;

use super::ground::SinkGround;
use crate::wait::on_threads;

/// Groups of cases, each of which needs something of a ground.
pub const GROUPS: [&str; 7] =
    ["poison", "refusals", "credentials", "revocation", "kill", "durable", "freeze"];

/// Runs one case on a fresh ground, on threads of its own. A ground that cannot be had, because its server is not
/// installed, is none; whoever makes it says so.
///
/// # Panics
///
/// Where the sink does not do what the case says.
pub fn run<M, F>(ground: impl Future<Output = M>, case: impl FnOnce(M::Ground) -> F)
where
    M: MaybeGround,
    F: Future<Output = ()>,
{
    on_threads(async {
        if let Some(ground) = ground.await.had() {
            case(ground).await;
        }
    });
}

/// A ground, or an `Option` of one.
pub trait MaybeGround {
    /// The ground.
    type Ground: SinkGround;

    /// It, where it can be had.
    fn had(self) -> Option<Self::Ground>;
}

impl<G: SinkGround> MaybeGround for G {
    type Ground = G;

    fn had(self) -> Option<G> {
        Some(self)
    }
}

impl<G: SinkGround> MaybeGround for Option<G> {
    type Ground = G;

    fn had(self) -> Self {
        self
    }
}

/// Each group is either run or left out with a reason.
///
/// # Panics
///
/// Where one is neither, or both, or has an empty reason.
pub fn every_group_is_named(run: &[&str], left_out: &[(&str, &str)]) {
    for group in GROUPS {
        let named = run.iter().filter(|name| **name == group).count();
        let without = left_out.iter().filter(|(name, _)| *name == group).count();
        assert_eq!(named + without, 1, "say of `{group}` once whether it is run, or why not");
    }
    assert!(left_out.iter().all(|(_, why)| !why.is_empty()), "a reason is missing");
}

/// Makes a test of each promise. The expression makes a fresh [`SinkGround`](crate::sinks::SinkGround), or an `Option` of
/// one; it may await. Then the groups of cases that apply, and those that do not, with the reason, which the tests' list
/// shows: they are there, and ignored.
///
/// ```ignore
/// sendoff_testkit::sink_suite!(Disk::new(); poison refusals; without
///     credentials = "a file has none", revocation = "a file has none",
///     kill = "a file has no server", durable = "a file has no server", freeze = "a file has no server");
/// ```
///
/// Where a server takes long to start, cases that do it no harm can share one, each on a ground of its own there. Those of the
/// groups after `own` are given a ground whose server is theirs alone.
///
/// ```ignore
/// sendoff_testkit::sink_suite!(Queues::shared().await; poison credentials;
///     own Queues::start().await; refusals revocation kill durable freeze);
/// ```
#[macro_export]
macro_rules! sink_suite {
    ($ground:expr; $($group:ident)*; own $own:expr; $($harm:ident)*) => {
        $crate::sink_suite! { @every $ground; $($group)*; $own; $($harm)*; }
    };
    ($ground:expr; $($group:ident)*; without $($not:ident = $why:literal),* $(,)?) => {
        $crate::sink_suite! { @every $ground; $($group)*; $ground; ; $($not = $why),* }
    };
    ($ground:expr; $($group:ident)*) => {
        $crate::sink_suite! { $ground; $($group)*; without }
    };
    (@every $ground:expr; $($group:ident)*; $own:expr; $($harm:ident)*; $($not:ident = $why:literal),*) => {
        $crate::sink_suite! { @cases $ground;
            an_empty_batch_is_answered_with_nothing
            what_is_delivered_arrives
            payloads_arrive_to_the_byte
            headers_key_and_type_arrive
            a_batch_arrives_in_order
            batches_side_by_side_arrive_whole
            what_is_done_is_there_already
            a_delivery_that_is_dropped_does_no_harm
            closing_under_load_loses_nothing_that_was_done
            a_closed_sink_takes_nothing_and_says_so
        }
        $($crate::sink_suite! { @of $group @cases $ground; })*
        $($crate::sink_suite! { @of $harm @cases $own; })*
        $($crate::sink_suite! { @of $not @not $why; })*

        #[test]
        fn every_group_of_cases_is_run_or_left_out_with_a_reason() {
            let run = [$(stringify!($group),)* $(stringify!($harm),)*];
            $crate::sinks::every_group_is_named(&run, &[$((stringify!($not), $why)),*]);
        }
    };
    (@of poison $($then:tt)*) => {
        $crate::sink_suite! { $($then)*
            one_bad_event_fails_alone
            no_fact_overtakes_one_that_cannot_be_sent
            errors_tell_neither_payloads_nor_headers
        }
    };
    (@of refusals $($then:tt)*) => {
        $crate::sink_suite! { $($then)*
            refusals_are_classified_and_pass
        }
    };
    (@of credentials $($then:tt)*) => {
        $crate::sink_suite! { $($then)*
            wrong_credentials_are_misconfigured_and_no_secret_is_told
        }
    };
    (@of revocation $($then:tt)*) => {
        $crate::sink_suite! { $($then)*
            credentials_that_are_revoked_lose_nothing
        }
    };
    (@of kill $($then:tt)*) => {
        $crate::sink_suite! { $($then)*
            a_target_that_is_down_is_unavailable_and_comes_back
            a_sink_starts_while_its_target_is_down
            a_target_killed_in_mid_batch_loses_nothing
            a_target_that_restarts_loses_nothing
        }
    };
    (@of durable $($then:tt)*) => {
        $crate::sink_suite! { $($then)*
            what_is_done_outlives_a_kill
        }
    };
    (@of freeze $($then:tt)*) => {
        $crate::sink_suite! { $($then)*
            a_target_that_hangs_is_given_up_in_time
        }
    };
    (@cases $ground:expr; $($case:ident)*) => {$(
        #[test]
        fn $case() {
            $crate::sinks::run(async { $ground }, |ground| async move {
                $crate::sinks::cases::$case(&ground).await;
            });
        }
    )*};
    (@not $why:literal; $($case:ident)*) => {$(
        #[test]
        #[ignore = $why]
        fn $case() {}
    )*};
}
