/// The cases.
pub mod cases {
    pub use crate::durability::link::{
        a_commit_that_never_arrived_resolves_to_rolled_back,
        a_commit_whose_answer_was_lost_is_unknown_and_resolves_to_committed,
    };
    pub use crate::durability::server::a_server_killed_under_load_loses_nothing;
}

/// Makes a test of each case about a link that breaks. The expression makes a fresh
/// [`LinkHarness`](crate::durability::LinkHarness); it may await.
#[macro_export]
macro_rules! link_suite {
    ($harness:expr) => {
        $crate::link_suite! { @cases $harness;
            a_commit_whose_answer_was_lost_is_unknown_and_resolves_to_committed
            a_commit_that_never_arrived_resolves_to_rolled_back
        }
    };
    (@cases $harness:expr; $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::durability::cases::$case($harness).await;
        }
    )*};
}

/// Makes a test of each case about a server that is killed. The expression makes an `Option` of an
/// [`OwnServer`](crate::durability::OwnServer); whoever cannot start one has said so.
#[macro_export]
macro_rules! server_suite {
    ($server:expr) => {
        $crate::server_suite! { @cases $server;
            a_server_killed_under_load_loses_nothing
        }
    };
    (@cases $server:expr; $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $case() {
            if let Some(server) = $server {
                $crate::durability::cases::$case(server).await;
            }
        }
    )*};
}
