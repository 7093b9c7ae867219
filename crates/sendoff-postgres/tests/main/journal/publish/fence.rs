use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_engine::journal::publish::{Move, NodeCard, Park, PublishStore, Seen, Which};
use sendoff_testkit::wait::eventually;

use super::{at, journal, pair};
use crate::journal::position;
use crate::place::Place;

fn card(owner: &str, renew: Duration, lease: Duration) -> NodeCard {
    NodeCard { owner: owner.into(), knows: BTreeSet::from([1, -2]), renew, lease }
}

/// Holds J8: an old leader moves nothing and sets nothing aside; a session that is gone proves
/// nothing by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_leader_moves_nothing() {
    let place = Place::new();
    let journal = journal(&place).await;
    let store = journal.store();
    let id = Arc::new(pair("p"));
    store.register(&[((*id).clone(), Position::START)]).await.unwrap();
    store.register(&[((*id).clone(), position(99))]).await.unwrap();
    let seen = |leader: Option<&str>, epoch| {
        [Seen { pair: Arc::clone(&id), leader: leader.map(Into::into), epoch }]
    };
    let step = |epoch, from, to| {
        let error = String::from("why");
        let park = Park { position: position(to), attempts: 1, delay: Duration::ZERO, error };
        [Move {
            pair: Arc::clone(&id),
            epoch,
            from: position(from),
            to: position(to),
            published: true,
            errors: 1,
            last_error: Some("why".into()),
            fails: false,
            parked: vec![park],
        }]
    };
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(600));
    let mut first = store.join(&card("first", second, hour)).await.unwrap();
    let mut other = store.join(&card("other", second, hour)).await.unwrap();
    assert_eq!(store.survey().await.unwrap().nodes[0].knows, BTreeSet::from([1, -2]));
    let taken = store.take("first", &seen(None, 0)).await.unwrap();
    assert_eq!((taken[0].epoch, taken[0].position.get()), (1, 0));
    assert!(store.take("other", &seen(None, 0)).await.unwrap().is_empty(), "it was quicker");
    assert_eq!(store.advance("first", &step(1, 0, 5)).await.unwrap(), [true]);
    first.beat().await.unwrap();
    drop(first);
    // Its session is gone, and it has missed nothing yet.
    assert!(store.take("other", &seen(Some("first"), 1)).await.unwrap().is_empty());
    let mut taken = Vec::new();
    eventually("two renewals are missed", async || {
        other.beat().await.unwrap();
        taken = store.take("other", &seen(Some("first"), 1)).await.unwrap();
        !taken.is_empty()
    })
    .await;
    assert_eq!((taken[0].epoch, taken[0].position.get()), (2, 5));
    assert_eq!(store.advance("first", &step(1, 5, 9)).await.unwrap(), [false]);
    assert_eq!(store.advance("other", &step(2, 4, 9)).await.unwrap(), [false], "not from there");
    assert_eq!(at(&journal, "p").await, 5);
    assert_eq!(store.advance("other", &step(2, 5, 6)).await.unwrap(), [true]);
    assert_eq!(at(&journal, "p").await, 6);
    let parked = store.parked(&Which::all(), None, 10).await.unwrap();
    assert_eq!(parked.iter().map(|p| p.position.get()).collect::<Vec<_>>(), [5, 6]);
    store.give("first", &[(Arc::clone(&id), 1)]).await.unwrap();
    assert_eq!(store.survey().await.unwrap().cursors[0].leader.as_deref(), Some("other"));
    store.give("other", &[(Arc::clone(&id), 2)]).await.unwrap();
    assert_eq!(store.survey().await.unwrap().cursors[0].leader, None);
}

/// A session that is there keeps a node alive that is late; its lease does not last for ever.
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
    drop(gone);
    eventually("the lease ran out", async || !alive("short").await).await;
    eventually("the session is gone", async || !alive("gone").await).await;
    assert!(alive("patient").await);
}
