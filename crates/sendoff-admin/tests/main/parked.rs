//! What publishers have parked.

use std::time::Duration;

use sendoff_core::Failure;
use sendoff_core::journal::publish::Poison;
use sendoff_core::journal::{Fact, Topic};
use sendoff_engine::journal::publish::{PairOptions, PublishStore, Publishing};
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::eventually;
use serde_json::json;

use crate::postgres::Place;
use crate::served::Served;
use crate::sqlite;

async fn set_aside<S: PublishStore>(journal: &Journal<S>) {
    let served = Served::new(journal).await;
    let client = &served.client;
    let latch = Latch::new("p");
    latch.refuse(|fact| {
        [2, 4, 6].contains(&fact.position.get()).then(|| Failure::dead("no such account"))
    });
    let topic = Topic::builder("t").build().unwrap();
    let options = PairOptions {
        interval: Duration::from_millis(20),
        poison: Poison::Park,
        ..PairOptions::default()
    };
    let pairs = Publishing::builder(journal).pair_with(&topic, latch.publisher(), options);
    let publishing = pairs.start().await.unwrap();
    journal.append((0..7).map(|_| Fact::builder(("moved", "{}")))).await.unwrap();
    latch.wait_for(4).await;
    eventually("three are parked", async || {
        client.get("/publishers/p/parked").await.body["parked"].as_array().unwrap().len() == 3
    })
    .await;

    let first = client.get("/publishers/p/parked?limit=2").await.body;
    let positions = |page: &serde_json::Value| -> Vec<u64> {
        page["parked"].as_array().unwrap().iter().map(|p| p["position"].as_u64().unwrap()).collect()
    };
    assert_eq!(positions(&first), [2, 4]);
    assert_eq!(first["parked"][0]["error"], "no such account");
    let next = first["next"].as_str().unwrap();
    let second = client.get(&format!("/publishers/p/parked?topic=t&after={next}")).await.body;
    assert_eq!((positions(&second), &second["next"]), (vec![6], &json!(null)));

    let discard = async |what: &str| client.post(&format!("/publishers/p/parked/{what}")).await;
    for unsaid in ["discard", "retry", "discard?position=2&all=true", "discard?all=false"] {
        assert_eq!(discard(unsaid).await.problem(), (400, "bad-request"), "{unsaid}");
    }
    assert_eq!(discard("discard?position=4").await.body["changed"], 1);
    assert_eq!(discard("discard?position=4").await.problem(), (404, "not-parked"));
    latch.accept();
    assert_eq!(discard("retry?all=true&topic=t").await.body["changed"], 2);
    latch.wait_for(6).await;
    eventually("nothing is parked", async || {
        client.get("/publishers/p/parked").await.body["parked"] == json!([])
    })
    .await;
    assert!(!latch.positions().contains(&4), "what was discarded is not published");
    assert_eq!(discard("retry?all=true").await.body["changed"], 0);
    let unknown = client.get("/publishers/q/parked").await;
    assert_eq!(unknown.problem(), (404, "no-such-publisher"));
    let unknown = client.post("/publishers/q/parked/retry?all=true").await;
    assert_eq!(unknown.problem(), (404, "no-such-publisher"));
    publishing.close().await;
    served.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_parked_is_listed_tried_again_and_discarded_in_memory() {
    set_aside(&Journal::new(MemoryJournal::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_parked_is_listed_tried_again_and_discarded_in_sqlite() {
    let (journal, _folder) = sqlite::journal().await;
    set_aside(&journal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_parked_is_listed_tried_again_and_discarded_on_postgres() {
    let Some(place) = Place::new() else { return };
    set_aside(&place.journal().await).await;
    place.drop().await;
}
