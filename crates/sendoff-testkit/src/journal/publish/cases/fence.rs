//! What an old leader can no longer change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::CursorStatus;
use sendoff_engine::journal::publish::{
    Change, Move, Moved, Park, ParkedPage, PublishStore, Retried, Seen, TriedAgain, Which,
};
use sendoff_engine::lead::NodeCard;

use super::{cursor, pair, position};
use crate::journal::PublishHarness;
use crate::wait::eventually;

const SECOND: Duration = Duration::from_secs(1);
const ACTIVE: [Moved; 1] = [Moved::Made(CursorStatus::Active)];

fn card(owner: &str, lease: Duration) -> NodeCard {
    let knows = BTreeSet::from([1, -2]);
    NodeCard { owner: owner.into(), knows, renew: Duration::from_millis(100), lease }
}

fn seen(leader: Option<&str>, epoch: i64) -> [Seen; 1] {
    [Seen { pair: Arc::new(pair("p")), leader: leader.map(Into::into), epoch }]
}

/// A move that sets its last fact aside.
fn step(epoch: i64, from: u64, to: u64) -> [Move; 1] {
    let error = String::from("why");
    let park = Park { position: position(to), attempts: 1, delay: Duration::ZERO, error };
    [Move {
        pair: Arc::new(pair("p")),
        epoch,
        from: position(from),
        to: position(to),
        published: true,
        errors: 1,
        last_error: Some("why".into()),
        waits_at: None,
        fails: false,
        parked: vec![park],
    }]
}

/// Holds J8: an old leader moves nothing, sets nothing aside and settles nothing; nobody moves a cursor from
/// where it is not; and who is alive is not replaced.
pub async fn an_old_leader_moves_nothing(harness: impl PublishHarness) {
    let journal = harness.journal();
    let store = journal.store();
    store.register(&[(pair("p"), Position::START)]).await.unwrap();
    store.register(&[(pair("p"), position(99))]).await.unwrap();
    let mut first = store.join(&card("first", 2 * SECOND)).await.unwrap();
    let mut other = store.join(&card("other", 60 * SECOND)).await.unwrap();
    let nodes = store.survey().await.unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| &*node.owner).collect::<Vec<_>>(), ["first", "other"]);
    assert_eq!(nodes[0].knows, BTreeSet::from([1, -2]));
    let taken = store.take("first", &seen(None, 0)).await.unwrap();
    assert_eq!((taken[0].epoch, taken[0].position.get()), (1, 0));
    assert_eq!(taken[0].leader.as_deref(), Some("first"));
    assert!(store.take("other", &seen(None, 0)).await.unwrap().is_empty(), "it was quicker");
    assert_eq!(store.advance("first", &step(1, 0, 5)).await.unwrap(), ACTIVE);
    first.beat().await.unwrap();
    assert!(store.take("other", &seen(Some("first"), 1)).await.unwrap().is_empty(), "it lives");
    drop(first);
    let mut taken = Vec::new();
    eventually("its silence is noticed", async || {
        other.beat().await.unwrap();
        taken = store.take("other", &seen(Some("first"), 1)).await.unwrap();
        !taken.is_empty()
    })
    .await;
    assert_eq!((taken[0].epoch, taken[0].position.get()), (2, 5));
    assert_eq!(store.advance("first", &step(1, 5, 9)).await.unwrap(), [Moved::Fenced]);
    assert_eq!(
        store.advance("other", &step(2, 4, 9)).await.unwrap(),
        [Moved::Fenced],
        "not from there"
    );
    assert_eq!(cursor(journal, "p").await.position.get(), 5);
    assert_eq!(store.advance("other", &step(2, 5, 6)).await.unwrap(), ACTIVE);
    let moved = cursor(journal, "p").await;
    assert_eq!((moved.position.get(), moved.errors), (6, 1));
    assert_eq!(moved.last_error.as_deref(), Some("why"));
    assert!(moved.published_at.is_some());
    let first_page = ParkedPage { which: &Which::all(), after: None, limit: 10 };
    let parked = store.parked(first_page).await.unwrap();
    assert_eq!(parked.iter().map(|p| p.position.get()).collect::<Vec<_>>(), [5, 6]);
    let outcome = &Retried::Published;
    let by = |owner, epoch| TriedAgain { owner, epoch, parked: &parked[0], outcome };
    let late = store.settle_parked(by("first", 1)).await.unwrap();
    assert!(!late, "it is another's to settle");
    assert_eq!(store.due("first", 10).await.unwrap(), []);
    assert_eq!(store.due("other", 10).await.unwrap().len(), 2);
    let settled = store.settle_parked(by("other", 2)).await.unwrap();
    assert!(settled && store.parked(first_page).await.unwrap().len() == 1);
    store.give("first", &[(Arc::new(pair("p")), 1)]).await.unwrap();
    assert_eq!(cursor(journal, "p").await.leader.as_deref(), Some("other"));
    store.give("other", &[(Arc::new(pair("p")), 2)]).await.unwrap();
    assert_eq!(cursor(journal, "p").await.leader, None);
    other.leave().await.unwrap();
    assert_eq!(store.survey().await.unwrap().nodes, []);
}

/// Holds J8 and J9: what an operator wrote is not written over: neither a position nor a status.
pub async fn what_an_operator_wrote_is_not_written_over(harness: impl PublishHarness) {
    let journal = harness.journal();
    let store = journal.store();
    store.register(&[(pair("p"), Position::START)]).await.unwrap();
    let _member = store.join(&card("first", 60 * SECOND)).await.unwrap();
    store.take("first", &seen(None, 0)).await.unwrap();
    store.advance("first", &step(1, 0, 5)).await.unwrap();
    assert_eq!(store.change(&Which::all(), Change::MoveTo(position(3))).await.unwrap(), 1);
    assert_eq!(store.advance("first", &step(1, 5, 9)).await.unwrap(), [Moved::Fenced]);
    assert_eq!(cursor(journal, "p").await.position.get(), 3);
    store.change(&Which::all(), Change::Pause).await.unwrap();
    let mut failing = step(1, 3, 4);
    failing[0].fails = true;
    assert_eq!(
        store.advance("first", &failing).await.unwrap(),
        [Moved::Made(CursorStatus::Paused)],
        "what was begun ends"
    );
    let cursor = cursor(journal, "p").await;
    assert_eq!((cursor.position.get(), cursor.status.as_str()), (4, "PAUSED"));
}
