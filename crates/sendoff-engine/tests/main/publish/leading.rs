//! Several nodes: they share, they take over, and an old leader moves nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::Leadership;
use sendoff_engine::journal::publish::{
    Move, NodeCard, PublishCounters, PublishOptions, PublishStore, Publishing, Seen, Which,
};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;
use tokio::time::Instant;

use super::{Log, MINUTE, append, cursor, everything, journal, pair, stored};
use crate::SECOND;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn node(journal: &Log, latches: &[Latch], leadership: Leadership) -> Publishing {
    let options = PublishOptions { leadership, ..PublishOptions::default() };
    let builder = Publishing::builder(journal).options(options);
    let pairs = latches.iter().fold(builder, |b, l| b.pair(&everything(), l.publisher()));
    pairs.start().await.unwrap()
}

fn leads(node: &Publishing, pairs: usize) -> impl AsyncFnMut() -> bool {
    async move || node.statistics().leading == pairs
}

/// Holds J8, J11 and J12: what moves is published once, and in order.
#[tokio::test(start_paused = true)]
async fn nodes_share_the_pairs_and_hand_them_over() {
    let journal = journal();
    let latches = NAMES.map(Latch::new);
    let first = node(&journal, &latches, Leadership::PerPair).await;
    append(&journal, 50).await;
    within(MINUTE, "the first leads all", leads(&first, 6)).await;
    let second = node(&journal, &latches, Leadership::PerPair).await;
    within(MINUTE, "the second leads half", leads(&second, 3)).await;
    within(MINUTE, "the first leads half", leads(&first, 3)).await;
    append(&journal, 50).await;
    for latch in &latches {
        latch.wait_for(100).await;
    }
    let closing = Instant::now();
    first.close().await;
    append(&journal, 50).await;
    for latch in &latches {
        latch.wait_for(150).await;
        assert_eq!(latch.positions(), (1..=150).collect::<Vec<_>>());
    }
    assert!(closing.elapsed() < 3 * SECOND, "{:?}", closing.elapsed());
    assert_eq!(second.statistics().failovers, 0);
    second.close().await;
}

/// Holds J8: a node that dies is replaced within seconds.
#[tokio::test(start_paused = true)]
async fn a_dead_nodes_pairs_are_taken_over() {
    let (journal, latches) = (journal(), NAMES.map(Latch::new));
    let counters = Arc::new(PublishCounters::default());
    let first = node(&journal, &latches, Leadership::Global).await;
    append(&journal, 50).await;
    within(MINUTE, "the first leads all", leads(&first, 6)).await;
    let second = {
        let options =
            PublishOptions { leadership: Leadership::Global, ..PublishOptions::default() };
        let builder = Publishing::builder(&journal).options(options).metrics(counters.clone());
        let pairs = latches.iter().fold(builder, |b, l| b.pair(&everything(), l.publisher()));
        pairs.start().await.unwrap()
    };
    tokio::time::sleep(MINUTE).await;
    assert_eq!(second.statistics().leading, 0, "one leads all");
    for name in NAMES {
        stored(&journal, name, 50).await;
    }
    drop(first);
    let died = Instant::now();
    append(&journal, 50).await;
    for latch in &latches {
        latch.wait_for(100).await;
        assert_eq!(latch.positions(), (1..=100).collect::<Vec<_>>());
    }
    assert!(died.elapsed() <= 3 * SECOND, "{:?}", died.elapsed());
    let counted = counters.values();
    assert_eq!(counted.pairs[&pair("a")].failovers, 1);
    assert_eq!(counted.leading, 6);
    second.close().await;
}

/// Holds J8: whoever was replaced cannot move the cursor, nor can anybody from where it is not.
#[tokio::test(start_paused = true)]
async fn an_old_leader_moves_nothing() {
    let journal = journal();
    let store = journal.store();
    let id = Arc::new(pair("p"));
    store.register(&[((*id).clone(), Position::START)]).await.unwrap();
    let card = |owner: &str| NodeCard {
        owner: owner.into(),
        knows: BTreeSet::new(),
        renew: SECOND,
        lease: 10 * SECOND,
    };
    let seen = |leader: Option<&str>, epoch| Seen {
        pair: Arc::clone(&id),
        leader: leader.map(Into::into),
        epoch,
    };
    let step = |epoch, from, to| Move {
        pair: Arc::clone(&id),
        epoch,
        from: Position::new(from).unwrap(),
        to: Position::new(to).unwrap(),
        published: true,
        errors: 0,
        last_error: None,
        fails: false,
        parked: Vec::new(),
    };
    let first = store.join(&card("first")).await.unwrap();
    let _second = store.join(&card("second")).await.unwrap();
    let taken = store.take("first", &[seen(None, 0)]).await.unwrap();
    assert_eq!(taken[0].epoch, 1);
    assert_eq!(store.advance("first", &[step(1, 0, 5)]).await.unwrap(), [true]);
    // It is alive, and nobody may take it; its session is gone, and it is alive all the same.
    assert!(store.take("second", &[seen(Some("first"), 1)]).await.unwrap().is_empty());
    drop(first);
    assert!(store.take("second", &[seen(Some("first"), 1)]).await.unwrap().is_empty());
    tokio::time::advance(2 * SECOND).await;
    let taken = store.take("second", &[seen(Some("first"), 1)]).await.unwrap();
    assert_eq!((taken[0].epoch, taken[0].position.get()), (2, 5));
    assert_eq!(store.advance("first", &[step(1, 5, 9)]).await.unwrap(), [false]);
    assert_eq!(store.advance("second", &[step(2, 4, 9)]).await.unwrap(), [false]);
    assert_eq!(store.advance("second", &[step(2, 5, 6)]).await.unwrap(), [true]);
    assert_eq!(cursor(&journal, "p").await.position.get(), 6);
    let all = journal.publishers().cursors(&Which::all()).await.unwrap();
    assert_eq!(all[0].leader.as_deref(), Some("second"));
}
