use sendoff_testkit::journal::all_is_published_through_outages;
use sendoff_testkit::soak;

use crate::journal::restart::started;

/// Holds J6: the server is killed under load, again and again; nothing stands, and all is in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outages_under_load_stop_nothing_for_good() {
    let Some((mut server, _, journal)) = started().await else { return };
    let strike = || {
        tokio::task::block_in_place(|| {
            server.kill();
            server.up();
        });
    };
    all_is_published_through_outages(&journal, soak::rounds(3), strike).await;
}
