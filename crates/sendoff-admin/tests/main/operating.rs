//! Publishers are seen and operated while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::journal::publish::Poison;
use sendoff_core::journal::{Fact, Position, Topic};
use sendoff_core::{Delivery, Failure, Sink, Timestamp, Verdict};
use sendoff_engine::journal::publish::{PairOptions, PublishStore, Publishing, Which};
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::eventually;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::client::Client;
use crate::postgres::Place;
use crate::served::Served;
use crate::sqlite;

const BATCH: usize = 5;

fn topic(name: &str) -> Topic {
    Topic::builder(name).build().unwrap()
}

fn small() -> PairOptions {
    PairOptions { batch: BATCH, interval: Duration::from_millis(20), ..PairOptions::default() }
}

async fn append<S: PublishStore>(journal: &Journal<S>, count: usize) {
    let facts = (0..count).map(|_| Fact::builder(("moved", "{}")).tag("wallet", 1));
    journal.append(facts).await.unwrap();
}

/// Publishes a batch when it may.
#[derive(Clone)]
struct Gated {
    latch: Latch,
    entered: Arc<AtomicUsize>,
    may: Arc<Semaphore>,
}

#[async_trait]
impl Sink for Gated {
    fn name(&self) -> &str {
        self.latch.name()
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        self.entered.fetch_add(1, Ordering::SeqCst);
        self.may.acquire().await.unwrap().forget();
        self.latch.deliver(deliveries).await
    }
}

/// Waits until the state of a publisher in its only topic is so.
async fn until(client: &Client, name: &str, key: &str, value: impl Into<serde_json::Value>) {
    let value = value.into();
    eventually(&format!("{name}: {key} is {value}"), async || {
        client.get(&format!("/publishers/{name}")).await.body["pairs"][0][key] == value
    })
    .await;
}

/// What the seed's four requests do.
async fn pause_and_resume<S: PublishStore>(journal: &Journal<S>) {
    let served = Served::new(journal).await;
    let client = &served.client;
    let one = Gated {
        latch: Latch::new("one"),
        entered: Arc::default(),
        may: Arc::new(Semaphore::new(2)),
    };
    let (other, witness) = (Latch::new("other"), Latch::new("witness"));
    let publishing = Publishing::builder(journal)
        .pair_with(&topic("all"), Arc::new(one.clone()), small())
        .pair_with(&topic("all"), other.publisher(), small())
        .pair_with(&topic("all"), witness.publisher(), small())
        .start()
        .await
        .unwrap();
    assert_eq!(client.post("/publishers/witness/pause").await.status, 200);
    until(client, "witness", "status", "PAUSED").await;
    append(journal, 50).await;
    eventually("its third batch is under way", async || one.entered.load(Ordering::SeqCst) == 3)
        .await;

    let paused = client.post("/publishers/one/pause").await;
    assert_eq!((paused.status, &paused.body["changed"]), (200, &json!(1)));
    assert_eq!(paused.body["now"]["pairs"][0]["status"], "PAUSED");
    // Whoever sees that the witness may go on has seen that the other is to stop.
    let before = witness.positions().len();
    client.post("/publishers/witness/resume").await;
    witness.wait_for(before + 1).await;
    one.may.add_permits(100);
    append(journal, 50).await;
    other.wait_for(100).await;
    witness.wait_for(100).await;
    let third = 3 * BATCH as u64;
    until(client, "one", "position", third).await;
    assert_eq!(one.entered.load(Ordering::SeqCst), 3, "it stops after the batch it is at");
    assert_eq!(one.latch.positions(), (1..=third).collect::<Vec<_>>());
    assert_eq!(other.positions(), (1..=100).collect::<Vec<_>>(), "and no other does");

    until(client, "other", "lag", 0).await;
    until(client, "witness", "lag", 0).await;
    let lag = client.get("/publishers/lag").await.body;
    assert_eq!((&lag["head"], &lag["longest"]), (&json!(100), &json!(100 - third)));
    let of = |name: &str| {
        let pairs = lag["pairs"].as_array().unwrap();
        pairs.iter().find(|pair| pair["publisher"] == name).unwrap()["lag"].as_u64().unwrap()
    };
    assert_eq!((of("one"), of("other"), of("witness")), (100 - third, 0, 0));

    let resumed = client.post("/publishers/one/resume").await;
    assert_eq!(resumed.body["now"]["pairs"][0]["status"], "ACTIVE");
    one.latch.wait_for(100).await;
    assert_eq!(one.latch.positions(), (1..=100).collect::<Vec<_>>(), "from where it was");
    until(client, "one", "lag", 0).await;
    assert_eq!(client.get("/publishers/nobody").await.problem(), (404, "no-such-publisher"));
    publishing.close().await;
    served.close().await;
}

/// Holds J10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_is_paused_within_a_batch_and_goes_on_where_it_was_in_memory() {
    pause_and_resume(&Journal::new(MemoryJournal::new())).await;
}

/// Holds J10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_is_paused_within_a_batch_and_goes_on_where_it_was_in_sqlite() {
    let (journal, _folder) = sqlite::journal().await;
    pause_and_resume(&journal).await;
}

/// Holds J10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_is_paused_within_a_batch_and_goes_on_where_it_was_on_postgres() {
    let Some(place) = Place::new() else { return };
    pause_and_resume(&place.journal().await).await;
    place.drop().await;
}

/// Holds J9 and J10: one topic of a publisher, or all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_is_meant_by_its_topic() {
    let journal = Journal::new(MemoryJournal::new());
    let served = Served::new(&journal).await;
    let client = &served.client;
    let latch = Latch::new("p");
    let publishing = Publishing::builder(&journal)
        .pair(&topic("a b"), latch.publisher())
        .pair(&topic("ä/b"), latch.publisher())
        .start()
        .await
        .unwrap();
    let states = async || {
        let body = client.get("/publishers/p").await.body;
        let pairs = body["pairs"].as_array().unwrap().clone();
        pairs.iter().map(|pair| pair["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let one = client.post("/publishers/p/pause?topic=%C3%A4%2Fb").await;
    assert_eq!((one.status, &one.body["changed"]), (200, &json!(1)));
    assert_eq!(states().await, ["ACTIVE", "PAUSED"]);
    assert_eq!(client.post("/publishers/p/pause").await.body["changed"], 2);
    assert_eq!(client.post("/publishers/p/resume?topic=a+b").await.body["changed"], 1);
    assert_eq!(states().await, ["ACTIVE", "PAUSED"]);
    let unknown = client.post("/publishers/p/pause?topic=c").await;
    assert_eq!(unknown.problem(), (404, "no-such-publisher"));
    assert!(unknown.detail().contains("has no topic"), "{}", unknown.detail());
    publishing.close().await;
    served.close().await;
}

/// Holds J9 and J10: what has failed is reset, and resuming it says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_failed_is_reset() {
    let journal = Journal::new(MemoryJournal::new());
    let served = Served::new(&journal).await;
    let client = &served.client;
    let latch = Latch::new("p");
    latch.refuse(|_| Some(Failure::dead("no such account")));
    let options = PairOptions { poison: Poison::Fail { after: Duration::ZERO }, ..small() };
    let pairs = Publishing::builder(&journal).pair_with(&topic("t"), latch.publisher(), options);
    let publishing = pairs.start().await.unwrap();
    append(&journal, 1).await;
    until(client, "p", "status", "FAILED").await;
    let state = client.get("/publishers/p").await.body["pairs"][0].clone();
    assert_eq!(state["last_error"], "no such account");
    assert_eq!(client.post("/publishers/p/resume").await.problem(), (409, "has-failed"));
    latch.accept();
    assert_eq!(client.post("/publishers/p/reset").await.status, 200);
    latch.wait_for(1).await;
    until(client, "p", "lag", 0).await;
    let state = client.get("/publishers/p").await.body["pairs"][0].clone();
    assert_eq!((&state["errors"], &state["last_error"]), (&json!(0), &json!(null)));
    assert!(state["published_at"].as_str().unwrap().ends_with('Z'));
    publishing.close().await;
    served.close().await;
}

async fn rewinding<S: PublishStore>(journal: &Journal<S>) {
    let served = Served::new(journal).await;
    let client = &served.client;
    let latch = Latch::new("p");
    let pairs = Publishing::builder(journal).pair_with(&topic("t"), latch.publisher(), small());
    let publishing = pairs.start().await.unwrap();
    append(journal, 10).await;
    until(client, "p", "position", 10).await;
    let rewound = client.post_json("/publishers/p/rewind", r#"{"position": 7}"#).await;
    assert_eq!(rewound.status, 200);
    latch.wait_for(13).await;
    assert_eq!(latch.positions()[10..], [8, 9, 10]);
    until(client, "p", "position", 10).await;
    let long_ago = Timestamp::from_micros(0);
    let body = format!(r#"{{"time": "{long_ago}"}}"#);
    assert_eq!(client.post_json("/publishers/p/rewind?topic=t", &body).await.status, 200);
    latch.wait_for(23).await;
    assert_eq!(latch.positions()[13..], (1..=10).collect::<Vec<_>>());
    until(client, "p", "position", 10).await;

    let ahead = client.post_json("/publishers/p/rewind", r#"{"position": 11}"#).await;
    assert_eq!(ahead.problem(), (400, "bad-request"));
    assert!(ahead.detail().contains("ends at 10"), "{}", ahead.detail());
    for wrong in [
        r#"{"position": -1}"#,
        r#"{"position": 1, "time": "2026-01-01T00:00:00Z"}"#,
        r#"{"time": "yesterday"}"#,
        r#"{"place": 1}"#,
        "{}",
        "",
        "[",
    ] {
        let answer = client.post_json("/publishers/p/rewind", wrong).await;
        assert_eq!(answer.problem(), (400, "bad-request"), "{wrong}");
    }
    let at = journal.publishers().cursors(&Which::all()).await.unwrap()[0].position;
    assert_eq!(at, Position::new(10).unwrap());
    publishing.close().await;
    served.close().await;
}

/// Holds J9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_are_put_back_to_a_position_or_a_time_in_memory() {
    rewinding(&Journal::new(MemoryJournal::new())).await;
}

/// Holds J9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_are_put_back_to_a_position_or_a_time_in_sqlite() {
    let (journal, _folder) = sqlite::journal().await;
    rewinding(&journal).await;
}

/// Holds J9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_are_put_back_to_a_position_or_a_time_on_postgres() {
    let Some(place) = Place::new() else { return };
    rewinding(&place.journal().await).await;
    place.drop().await;
}

/// Lists come in pages, and a publisher of the name of a route is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages_and_a_publisher_named_lag_is_in_them() {
    let journal = Journal::new(MemoryJournal::new());
    let served = Served::new(&journal).await;
    let client = &served.client;
    let names = ["lag", "a", "b/c", "pause", "z"];
    let mut publishing = Publishing::builder(&journal);
    for name in names {
        publishing = publishing.pair(&topic("t"), Latch::new(name).publisher());
    }
    let publishing = publishing.start().await.unwrap();
    for route in ["/publishers", "/publishers/lag"] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("{route}?limit=2{after}")).await.body;
            let pairs = page["pairs"].as_array().unwrap().clone();
            seen.extend(pairs.iter().map(|pair| pair["publisher"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(seen, ["a", "b/c", "lag", "pause", "z"], "{route}");
    }
    let found = client.get("/publishers?publisher=lag").await.body;
    assert_eq!(found["pairs"][0]["publisher"], "lag");
    assert_eq!(found["pairs"].as_array().unwrap().len(), 1);
    assert_eq!(client.post("/publishers/lag/pause").await.status, 200);
    let found = client.get("/publishers?publisher=lag&topic=t").await.body;
    assert_eq!(found["pairs"][0]["status"], "PAUSED");
    assert_eq!(client.get("/publishers/b%2Fc").await.status, 200);
    assert_eq!(client.get("/publishers?publisher=none").await.body["pairs"], json!([]));
    publishing.close().await;
    served.close().await;
}
