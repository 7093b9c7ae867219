//! Counters by type: appended by settlements, added up by whoever looks after the outbox.

use std::time::Duration;

use sendoff_core::Event;
use sendoff_engine::store::{InspectStore, Outcome, RetainStore, SettleStore, Settlement};
use sendoff_postgres::PostgresStore;
use tokio::time::timeout;

use crate::place::{Place, claim, due, event, hold_of, settle_one, write};

const PROMPT: Duration = Duration::from_secs(10);

/// Events of these types, written and delivered one by one.
async fn deliver(place: &Place, store: &PostgresStore, types: &[&str]) {
    let mut client = place.client().await;
    for name in types {
        write(store, &mut client, &[due(Event::json(*name, &1).unwrap())]).await;
        let claimed = claim(store, "a").await;
        assert!(settle_one(store, hold_of(&claimed[0]), Outcome::Done).await);
    }
}

async fn done(store: &PostgresStore) -> Vec<(String, u64)> {
    let topics = store.topics().await.unwrap();
    let ended = topics.iter().filter(|topic| topic.counts.done > 0);
    ended.map(|topic| (topic.event_type.clone(), topic.counts.done)).collect()
}

#[tokio::test]
async fn counts_are_the_same_before_and_after_they_are_folded() {
    let place = Place::new();
    let store = place.store().await;
    deliver(&place, &store, &["a", "b", "a"]).await;
    let counted = [("a".to_owned(), 2), ("b".to_owned(), 1)];
    assert_eq!(done(&store).await, counted);
    assert_eq!(store.fold().await.unwrap(), 3);
    assert_eq!(done(&store).await, counted);
    assert_eq!(store.fold().await.unwrap(), 0);
    deliver(&place, &store, &["b"]).await;
    assert_eq!(store.fold().await.unwrap(), 1);
    assert_eq!(done(&store).await, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    assert_eq!(place.number("select count(*) from outbox_tally_delta").await, 0);
}

/// A session that froze after it counted keeps no other from counting the same type.
#[tokio::test]
async fn counters_that_somebody_has_locked_hold_no_settlement_back() {
    let place = Place::new();
    let store = place.store().await;
    deliver(&place, &store, &["order.placed"]).await;
    store.fold().await.unwrap();
    let frozen = place.client().await;
    let held = format!(
        "set search_path = {}; begin; update outbox_tally set count = count + 1;
         insert into outbox_tally_delta values ('order.placed', 1, 1)",
        place.schema
    );
    frozen.batch_execute(&held).await.unwrap();
    let mut client = place.client().await;
    write(&store, &mut client, &[due(event())]).await;
    let claimed = claim(&store, "a").await;
    let settlement = Settlement { held: hold_of(&claimed[0]), outcome: Outcome::Done };
    let settled = timeout(PROMPT, store.settle(&[settlement])).await.unwrap().unwrap();
    assert_eq!(settled.applied.len(), 1);
    frozen.batch_execute("rollback").await.unwrap();
    assert_eq!(done(&store).await, [("order.placed".to_owned(), 2)]);
}

/// Several nodes fold at once: each count goes in once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folding_from_several_nodes_counts_nothing_twice() {
    let place = Place::new();
    let store = place.store().await;
    place
        .run("insert into outbox_tally_delta select 't', 1, 1 from generate_series(1, 25000)")
        .await;
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let node = place.store().await;
        nodes.spawn(async move {
            let mut folded = 0;
            for _ in 0..10 {
                folded += node.fold().await.unwrap();
            }
            folded
        });
    }
    let folded: u64 = nodes.join_all().await.into_iter().sum();
    assert_eq!(folded, 25_000);
    assert_eq!(done(&store).await, [("t".to_owned(), 25_000)]);
}

#[tokio::test]
async fn a_type_of_which_nothing_ended_for_a_month_is_forgotten() {
    let place = Place::new();
    let store = place.store().await;
    deliver(&place, &store, &["old", "back", "new"]).await;
    store.fold().await.unwrap();
    place
        .run(
            "update outbox_tally set ended_at = now() - interval '31 days'
               where event_type <> 'new'",
        )
        .await;
    deliver(&place, &store, &["back"]).await;
    store.fold().await.unwrap();
    assert_eq!(done(&store).await, [("back".to_owned(), 2), ("new".to_owned(), 1)]);
}
