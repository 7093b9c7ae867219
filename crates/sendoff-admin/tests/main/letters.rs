//! Dead letters over HTTP.

use std::sync::Arc;
use std::time::Duration;

use sendoff_admin::Admin;
use sendoff_core::{Event, EventId};
use sendoff_engine::DeadLetters;
use sendoff_engine::capture::Commit;
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{Birth, Claim, LetterStore, NewRow, OutboxStore, Outcome, Settlement};
use sendoff_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::mariadb;
use crate::postgres::Place;
use crate::served::{Served, token};

const WHO: &str = r#"{"actor": "ada", "reason": "the mail server is back"}"#;

const PAYLOAD: &str = r#"{"to":"sing-no-song"}"#;

fn row(event_type: &str) -> NewRow {
    let event = Event::builder(event_type)
        .aggregate_type("customer")
        .aggregate_id("c1")
        .tenant_id("acme")
        .header("trace", "1")
        .json_text(PAYLOAD);
    NewRow { event: event.build().unwrap(), birth: Birth::Due }
}

fn rows() -> Vec<NewRow> {
    (0..5).map(|n| row(if n < 3 { "mail.wanted" } else { "order.placed" })).collect()
}

/// Lets all that is due die.
async fn kill(store: &impl OutboxStore) {
    let claimed = store.claim(&Claim::new("a", 100, Duration::from_secs(60))).await.unwrap().rows;
    let outcome = Outcome::dead(10, "550 no \"such\" mailbox\nat all");
    let end = |held| Settlement { held, outcome: outcome.clone() };
    let batch: Vec<_> = claimed.iter().map(|row| end(row.held())).collect();
    assert_eq!(store.settle(&batch).await.unwrap().applied.len(), claimed.len());
}

async fn served(store: impl LetterStore) -> Served {
    Served::by(Admin::outbox(DeadLetters::new(Arc::new(store))).token(token())).await
}

fn ids(page: &Value) -> Vec<String> {
    let letters = page["letters"].as_array().unwrap();
    letters.iter().map(|letter| letter["event_id"].as_str().unwrap().to_owned()).collect()
}

async fn operated<S: OutboxStore + Clone>(store: S, ids_of: &[EventId]) {
    kill(&store).await;
    let served = served(store.clone()).await;
    let client = &served.client;

    let all = client.get("/events").await.body;
    let known: Vec<String> = ids_of.iter().map(ToString::to_string).collect();
    assert_eq!((ids(&all), &all["next"]), (known.clone(), &json!(null)));
    assert_eq!(all["letters"][0]["attempts"], 10);
    let first = client.get("/events?limit=2&order=newest").await.body;
    let next = first["next"].as_str().unwrap();
    let second = client.get(&format!("/events?limit=9&order=newest&after={next}")).await.body;
    let mut newest = [ids(&first), ids(&second)].concat();
    newest.reverse();
    assert_eq!(newest, known);
    for (filter, count) in [
        ("event_type=mail.wanted", 3),
        ("event_type=mail", 0),
        ("aggregate_type=customer&aggregate_id=c1&tenant_id=acme", 5),
        ("error=no%20%22such%22%20mailbox%0Aat", 5),
        ("error=no%25", 0),
        ("attempts_least=10&attempts_most=10", 5),
        ("attempts_least=11", 0),
        ("died_from=2000-01-01T00:00:00Z&died_to=2999-01-01T00:00:00Z", 5),
        ("died_to=2000-01-01T00:00:00%2B02:00", 0),
    ] {
        let page = client.get(&format!("/events?{filter}")).await.body;
        assert_eq!(ids(&page).len(), count, "{filter}");
    }

    let id = &known[0];
    let shown = client.get(&format!("/events/{id}")).await.body;
    assert_eq!((&shown["status"], &shown["payload"]), (&json!("DEAD"), &json!(null)));
    assert_eq!(shown["payload_bytes"], PAYLOAD.len());
    let shown = client.get(&format!("/events/{id}?payload=true")).await.body;
    assert_eq!(shown["payload"], PAYLOAD);
    // Fault 36: and nowhere else.
    for path in ["/events", &format!("/events/{id}"), "/audit"] {
        let answer = client.get(path).await.body.to_string();
        assert!(answer.len() > 10 && !answer.contains("sing-no-song"), "{path}: {answer}");
    }
    assert_eq!(shown["audit"], json!([]));

    let requeued = client.post_json(&format!("/events/{id}/requeue"), WHO).await.body;
    assert_eq!(requeued, json!({"event_id": id, "done": "requeued"}));
    let again = client.post_json(&format!("/events/{id}/requeue"), WHO).await;
    assert_eq!(again.problem(), (409, "not-dead"));
    assert!(again.detail().contains("NEW"), "{}", again.detail());
    let discarded = client.post_json(&format!("/events/{}/discard", known[1]), WHO).await.body;
    assert_eq!(discarded["done"], "discarded");
    let gone = client.get(&format!("/events/{}", known[1])).await;
    assert_eq!(gone.problem(), (404, "no-such-event"));
    assert!(gone.detail().contains("/audit"), "{}", gone.detail());
    let unknown = EventId::generate();
    assert_eq!(client.get(&format!("/events/{unknown}")).await.problem(), (404, "no-such-event"));
    let answer = client.post_json(&format!("/events/{unknown}/discard"), WHO).await;
    assert_eq!(answer.problem(), (404, "no-such-event"));

    let sweep = async |act: &str, more: Value| {
        let mut body = json!({"actor": "bob", "reason": "all of them"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post_json(&format!("/events/{act}"), &body.to_string()).await
    };
    let orders = json!({"filter": {"event_type": "order.placed"}});
    let mut dry = orders.clone();
    dry["dry_run"] = true.into();
    let dry = sweep("requeue", dry).await.body;
    assert_eq!(
        (&dry["found"], &dry["done"], &dry["dry_run"]),
        (&json!(2), &json!(0), &json!(true))
    );
    let mut one = orders.clone();
    one["limit"] = 1.into();
    let first = sweep("requeue", one).await.body;
    assert_eq!((&first["done"], &first["finished"]), (&json!(1), &json!(false)));
    let mut rest = orders.clone();
    rest["began"] = first["began"].clone();
    let rest = sweep("requeue", rest).await.body;
    assert_eq!(
        (&rest["done"], &rest["finished"], &rest["began"]),
        (&json!(1), &json!(true), &first["began"])
    );
    let last = sweep("discard", json!({"all": true})).await.body;
    assert_eq!((&last["found"], &last["done"]), (&json!(1), &json!(1)));
    assert_eq!(ids(&client.get("/events").await.body).len(), 0);

    let page = client.get("/audit?limit=4").await.body;
    assert!(!page.to_string().contains("sing-no-song"), "{page}");
    let entries = page["entries"].as_array().unwrap();
    assert_eq!((&entries[0]["action"], &entries[0]["actor"]), (&json!("discard"), &json!("bob")));
    let next = page["next"].as_str().unwrap();
    let rest = client.get(&format!("/audit?after={next}")).await.body;
    assert_eq!((rest["entries"].as_array().unwrap().len(), &rest["next"]), (1, &json!(null)));
    let of_one = client.get(&format!("/audit?event_id={id}")).await.body;
    assert_eq!(of_one["entries"][0]["reason"], "the mail server is back");
    assert_eq!(of_one["entries"].as_array().unwrap().len(), 1);
    served.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_seen_requeued_and_discarded_in_memory() {
    let (store, rows) = (MemoryStore::new(), rows());
    store.commit(store.transaction().unwrap(), &rows).await.unwrap();
    operated(store, &rows.iter().map(|row| row.event.id()).collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_seen_requeued_and_discarded_in_sqlite() {
    use sendoff_engine::capture::{BeginBlocking, CommitBlocking};

    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("a.db")).await.unwrap();
    let (mut conn, rows) = (store.connect().unwrap(), rows());
    let tx = store.begin_blocking(&mut conn).unwrap();
    store.commit_blocking(tx, &rows).unwrap();
    operated(store, &rows.iter().map(|row| row.event.id()).collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_seen_requeued_and_discarded_on_postgres() {
    use sendoff_engine::capture::Begin;

    let Some(place) = Place::new() else { return };
    let (store, rows) = (place.outbox().await, rows());
    let mut client = place.client().await;
    let tx = store.begin(&mut client).await.unwrap();
    store.commit(tx, &rows).await.unwrap();
    operated(store, &rows.iter().map(|row| row.event.id()).collect::<Vec<_>>()).await;
    place.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_seen_requeued_and_discarded_on_mariadb() {
    use sendoff_engine::capture::Begin;

    let Some(place) = mariadb::Place::new().await else { return };
    let (store, rows) = (place.outbox().await, rows());
    let mut conn = place.conn().await;
    let tx = store.begin(&mut conn).await.unwrap();
    store.commit(tx, &rows).await.unwrap();
    operated(store, &rows.iter().map(|row| row.event.id()).collect::<Vec<_>>()).await;
    place.drop().await;
}

#[tokio::test]
async fn every_mistake_about_letters_has_a_name() {
    let (store, rows) = (MemoryStore::new(), rows());
    store.commit(store.transaction().unwrap(), &rows).await.unwrap();
    kill(&store).await;
    let served = served(store.clone()).await;
    let client = &served.client;
    let long = "n".repeat(129);
    for path in [
        "/events?typ=mail.wanted".to_owned(),
        "/events?limit=0".to_owned(),
        "/events?limit=501".to_owned(),
        "/events?order=best".to_owned(),
        "/events?after=zz".to_owned(),
        "/events?died_from=yesterday".to_owned(),
        "/events?attempts_least=-1".to_owned(),
        "/events?attempts_least=2&attempts_most=1".to_owned(),
        "/events?error=".to_owned(),
        "/events?error=%00".to_owned(),
        format!("/events?event_type={long}"),
        "/events/no-id".to_owned(),
        "/events/requeue?x=1".to_owned(),
        "/audit?event_id=7".to_owned(),
        "/audit?after=5b5d".to_owned(),
    ] {
        let answer = client.get(&path).await;
        let expected =
            if path.contains("/requeue") { (405, "wrong-method") } else { (400, "bad-request") };
        assert_eq!(answer.problem(), expected, "{path}");
    }
    let time = client.get("/events?died_from=yesterday").await;
    assert!(time.detail().contains("2026-01-31T08:00:00Z"), "{}", time.detail());

    let id = rows[0].event.id();
    let reason = "r".repeat(501);
    for (path, body) in [
        (format!("/events/{id}/requeue"), "{}".to_owned()),
        (format!("/events/{id}/requeue"), r#"{"actor": "a"}"#.to_owned()),
        (format!("/events/{id}/discard"), r#"{"actor": "", "reason": "r"}"#.to_owned()),
        (format!("/events/{id}/discard"), r#"{"actor": "a", "reason": "  "}"#.to_owned()),
        (format!("/events/{id}/discard"), format!(r#"{{"actor": "a", "reason": "{reason}"}}"#)),
        (
            format!("/events/{id}/requeue"),
            r#"{"actor": "a", "reason": "r", "all": true}"#.to_owned(),
        ),
        ("/events/requeue".to_owned(), WHO.to_owned()),
        ("/events/requeue".to_owned(), r#"{"actor": "a", "reason": "r", "filter": {}}"#.to_owned()),
        (
            "/events/discard".to_owned(),
            r#"{"actor": "a", "reason": "r", "all": true, "filter": {"tenant_id": "t"}}"#
                .to_owned(),
        ),
        (
            "/events/discard".to_owned(),
            r#"{"actor": "a", "reason": "r", "filter": {"tenant": "t"}}"#.to_owned(),
        ),
        (
            "/events/discard".to_owned(),
            r#"{"actor": "a", "reason": "r", "all": true, "began": 1}"#.to_owned(),
        ),
    ] {
        let answer = client.post_json(&path, &body).await;
        assert_eq!(answer.problem(), (400, "bad-request"), "{path} {body}");
        assert!(!answer.detail().is_empty());
    }
    assert_eq!(ids(&client.get("/events").await.body).len(), 5, "nothing was done");

    let lock = store.lock_row(id).unwrap();
    let answer = client.post_json(&format!("/events/{id}/requeue"), WHO).await;
    assert_eq!(answer.problem(), (409, "locked"), "{}", answer.detail());
    drop(lock);
    store.close();
    assert_eq!(client.get("/events").await.problem(), (503, "unavailable"));
    let answer = client.post_json(&format!("/events/{id}/requeue"), WHO).await;
    assert_eq!(answer.problem(), (503, "unavailable"));
    assert_eq!(client.with(&[]).get("/events").await.problem(), (401, "no-token"));
    served.close().await;
}
