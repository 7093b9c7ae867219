use std::collections::BTreeSet;
use std::time::Duration;

use sendoff_engine::journal::publish::PublishStore;
use sendoff_engine::lead::NodeCard;
use sendoff_testkit::wait::eventually;

use super::journal;
use crate::place::Place;

fn card(owner: &str, renew: Duration, lease: Duration) -> NodeCard {
    NodeCard { owner: owner.into(), knows: BTreeSet::from([1, -2]), renew, lease }
}

/// Holds J8: a session that is there keeps a node alive that is late, and its lease does not last for
/// ever; one that is gone proves nothing by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_node_with_a_session_is_alive_until_its_lease_ran_out() {
    let place = Place::new();
    let journal = journal(&place).await;
    let store = journal.store();
    let tick = Duration::from_millis(1);
    let alive = async |owner: &str| {
        store.survey().await.unwrap().nodes.iter().any(|node| node.owner == owner)
    };
    let _patient = store.join(&card("patient", tick, Duration::from_secs(600))).await.unwrap();
    let _short = store.join(&card("short", tick, Duration::from_millis(200))).await.unwrap();
    let gone = store.join(&card("gone", tick, Duration::from_secs(600))).await.unwrap();
    let hour = Duration::from_secs(3_600);
    let punctual = store.join(&card("punctual", hour, 4 * hour)).await.unwrap();
    drop((gone, punctual));
    eventually("the lease ran out", async || !alive("short").await).await;
    eventually("the session is gone", async || !alive("gone").await).await;
    assert!(alive("patient").await && alive("punctual").await);
}
