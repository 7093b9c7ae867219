//! Answers that are none.

use std::time::Duration;

use sendoff_admin::Admin;
use sendoff_engine::journal::publish::Publishing;
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::wait::eventually;

use crate::postgres::Place;
use crate::served::{Served, token};

#[tokio::test]
async fn every_mistake_has_a_name() {
    let journal = Journal::new(MemoryJournal::new());
    let topic = sendoff_core::journal::Topic::builder("t").build().unwrap();
    let pairs = Publishing::builder(&journal).pair(&topic, Latch::new("p").publisher());
    let publishing = pairs.start().await.unwrap();
    let served = Served::new(&journal).await;
    let client = &served.client;
    let long = "n".repeat(129);

    for path in [
        "/publishers?limit=0",
        "/publishers?limit=501",
        "/publishers?limit=many",
        "/publishers?after=zz",
        "/publishers?topc=t",
        "/publishers?topic=t&topic=u",
        "/publishers?topic=",
        "/publishers?topic=%00",
        "/publishers/lag?limit=-1",
        "/publishers/p?publisher=q",
        "/publishers/p/parked?position=1",
        "/publishers/%ff",
        &format!("/publishers/{long}"),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.problem(), (400, "bad-request"), "{path}");
        assert!(!answer.detail().is_empty());
    }
    for path in ["/publishers/p/pause?topc=t", "/publishers/p/parked/retry?position=-1"] {
        assert_eq!(client.post(path).await.problem(), (400, "bad-request"), "{path}");
    }
    let typo = client.get("/publishers?topc=t").await;
    assert!(typo.detail().contains("topc"), "{}", typo.detail());

    for action in ["pause", "resume", "reset"] {
        let answer = client.post(&format!("/publishers/q/{action}")).await;
        assert_eq!(answer.problem(), (404, "no-such-publisher"));
        assert!(answer.detail().contains("\"q\""), "{}", answer.detail());
    }
    let answer = client.post_json("/publishers/q/rewind", r#"{"position":0}"#).await;
    assert_eq!(answer.problem(), (404, "no-such-publisher"));
    for path in ["", "/", "/nothing", "/publishers/", "/publishers/p/explode"] {
        assert_eq!(client.get(path).await.problem(), (404, "no-such-route"), "{path}");
    }

    for (method, path, allow) in [
        ("GET", "/publishers/p/pause", "post"),
        ("POST", "/publishers/p", "get,head"),
        ("DELETE", "/publishers", "get,head"),
        ("OPTIONS", "/publishers/lag", "get,head"),
        ("PUT", "/publishers/p/rewind", "post"),
    ] {
        let answer = client.ask(method, path, None).await;
        assert_eq!(answer.problem(), (405, "wrong-method"), "{method} {path}");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }

    let large = format!(r#"{{"time":"{}"}}"#, "9".repeat(40_000));
    let answer = client.post_json("/publishers/p/rewind", &large).await;
    assert_eq!(answer.problem(), (413, "too-large"));
    let auth = format!("authorization: Bearer {}", crate::client::TOKEN);
    let plain = client.with(&[&auth, "content-type: text/plain"]);
    let answer = plain.post_json("/publishers/p/rewind", r#"{"position":0}"#).await;
    assert_eq!(answer.problem(), (415, "not-json"));
    assert_eq!(client.ask("HEAD", "/publishers", None).await.status, 200);
    publishing.close().await;
    served.close().await;
}

/// Holds J10: the database is unavailable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_said_to_be() {
    let Some(place) = Place::new() else { return };
    let proxy = Proxy::start(place.server()).await.unwrap();
    let journal = place.journal_at(&place.through(proxy.address())).await;
    let served = Served::new(&journal).await;
    let client = &served.client;
    assert_eq!(client.get("/publishers").await.status, 200);
    drop(proxy);
    eventually("it is away", async || client.get("/publishers").await.status != 200).await;
    for path in ["/publishers", "/publishers/lag", "/publishers/p", "/publishers/p/parked"] {
        let answer = client.get(path).await;
        assert_eq!(answer.problem(), (503, "unavailable"), "{}", answer.detail());
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    let answer = client.post("/publishers/p/pause").await;
    assert_eq!(answer.problem(), (503, "unavailable"));
    served.close().await;
    place.drop().await;
}

/// A database that says nothing is not waited for, and nothing is left over when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_has_a_deadline() {
    let Some(place) = Place::new() else { return };
    let journal = place.journal().await;
    let hurried = Admin::new(&journal).token(token()).deadline(Duration::from_millis(200));
    let served = Served::by(hurried).await;
    let client = &served.client;
    assert_eq!(client.get("/publishers").await.status, 200);
    let blocker = place.client().await;
    blocker.batch_execute("begin; lock table journal_cursor").await.unwrap();
    let answer = client.get("/publishers").await;
    assert_eq!(answer.problem(), (503, "late"), "{}", answer.detail());
    blocker.batch_execute("rollback").await.unwrap();
    eventually("it answers", async || client.get("/publishers").await.status == 200).await;
    served.close().await;
    place.drop().await;
}

/// More than a few at once are told to come again; whoever has no token takes nobody's place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_once_are_limited() {
    let Some(place) = Place::new() else { return };
    let journal = place.journal().await;
    let served = Served::new(&journal).await;
    let client = &served.client;
    let blocker = place.client().await;
    blocker.batch_execute("begin; lock table journal_cursor").await.unwrap();
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let client = client.clone();
        asked.spawn(async move { client.get("/publishers").await });
    }
    // Those that were let in wait for the lock.
    for _ in 16..40 {
        let refused = asked.join_next().await.unwrap().unwrap();
        assert_eq!(refused.problem(), (503, "busy"));
    }
    assert_eq!(client.with(&[]).get("/publishers").await.status, 401);
    blocker.batch_execute("rollback").await.unwrap();
    for answer in asked.join_all().await {
        assert_eq!(answer.status, 200);
    }
    assert_eq!(client.get("/publishers").await.status, 200);
    served.close().await;
    place.drop().await;
}
