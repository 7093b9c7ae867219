//! Keys that are parked: listed, explained and let go on.

use std::sync::Arc;

use sendoff_admin::Admin;
use sendoff_core::order::{AfterDead, Ending};
use sendoff_core::{Event, EventId, limits};
use sendoff_engine::capture::CommitBlocking;
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{
    Birth, Except, HeldKey, KeyStore, LetterStore, NewRow, Outcome, ParkStore, RunEnd, Suspects,
    TakeKeys, WalkFrom,
};
use sendoff_engine::{DeadLetters, OrderKeys};
use serde_json::{Value, json};

use crate::served::{Served, token};

fn admin(store: impl ParkStore + LetterStore + Clone) -> Admin {
    let letters = DeadLetters::new(Arc::new(store.clone()));
    Admin::outbox(letters).with_keys(OrderKeys::new(Arc::new(store))).token(token())
}

/// Two events of a key, the first of which is dead.
async fn park(store: &MemoryStore, key: &str) -> Vec<EventId> {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let event = Event::builder("order.placed").ordering_key(key).bytes("x").build().unwrap();
        ids.push(event.id());
        let tx = store.transaction().unwrap();
        store.commit_blocking(tx, &[NewRow { event, birth: Birth::Due }]).unwrap();
    }
    let take = TakeKeys {
        owner: "node",
        limit: 10,
        run: 10,
        hold: std::time::Duration::from_secs(30),
        except: Except::NOTHING,
        suspects: Suspects::Skip,
        walk: Some(WalkFrom { after: 0, rows: 100 }),
    };
    let taken = store.take_keys(&take).await.unwrap().keys;
    let taken = taken.into_iter().find(|taken| &*taken.key == key).unwrap();
    let (attempts, error) = (10, "no such\nstock".to_owned());
    let dead = Outcome::Dead { attempts, error, then: AfterDead::Park };
    let held = HeldKey { key: taken.key, token: taken.token };
    let end = RunEnd { held, rows: vec![(ids[0], dead)], ending: Ending::Free };
    assert_eq!(store.settle_runs("node", &[end]).await.unwrap().applied.len(), 1);
    ids
}

fn order(event: Option<&str>) -> String {
    let mut order = json!({ "actor": "ann", "reason": "mended by hand" });
    if let Some(event) = event {
        order["event_id"] = event.into();
    }
    order.to_string()
}

#[tokio::test]
async fn parked_keys_are_listed_explained_and_let_go_on() {
    let store = MemoryStore::new();
    let served = Served::by(admin(store.clone())).await;
    let client = &served.client;
    assert_eq!(client.get("/keys").await.body, json!({ "keys": [], "next": null }));
    let ids = park(&store, "order:1/ä").await;
    park(&store, "order:2").await;

    let first = client.get("/keys?limit=1").await.body;
    let key = &first["keys"][0];
    assert_eq!((&key["key"], &key["state"]), (&json!("order:1/ä"), &json!("parked")));
    assert_eq!((&key["events"], &key["exact"]), (&json!(1), &json!(true)));
    assert_eq!(key["parked_by"], ids[0].to_string());
    assert_eq!(key["dead_error"], "no such\nstock");
    assert_eq!((&key["dead_attempts"], &key["first_attempts"]), (&json!(10), &json!(0)));
    assert_eq!(key["first_event_id"], ids[1].to_string());
    assert!(key["parked_since"].as_str().unwrap().ends_with('Z'), "{key}");
    let next = first["next"].as_str().unwrap();
    let second = client.get(&format!("/keys?limit=1&after={next}")).await.body;
    assert_eq!((&second["keys"][0]["key"], &second["next"]), (&json!("order:2"), &Value::Null));

    let path = "/keys/order:1%2F%C3%A4";
    assert_eq!(client.get(path).await.body, *key, "one says what the list says");
    let idle = client.get("/keys/nobody's").await.body;
    assert_eq!((&idle["state"], &idle["events"]), (&json!("idle"), &json!(0)));

    let resume = format!("{path}/resume");
    let other = EventId::generate().to_string();
    let wrong = client.post_json(&resume, &order(Some(&other))).await;
    assert_eq!(wrong.problem(), (409, "parked-by-another"));
    assert!(wrong.detail().contains(&ids[0].to_string()), "{}", wrong.detail());
    let done = client.post_json(&resume, &order(Some(&ids[0].to_string()))).await;
    assert_eq!(done.body, json!({ "key": "order:1/ä", "event_id": ids[0].to_string() }));
    assert_eq!(client.post_json(&resume, &order(None)).await.problem(), (404, "not-parked"));
    assert_eq!(client.get(path).await.body["state"], "in_line");
    let waiting = client.get(&format!("/events/{}", ids[1])).await.body;
    assert_eq!(waiting["due_at"], Value::Null, "what is in line is due at no time");

    let audit = client.get("/audit").await.body;
    let entry = &audit["entries"][0];
    assert_eq!((&entry["action"], &entry["actor"]), (&json!("resume"), &json!("ann")));
    assert_eq!(entry["subject"], "key:order:1/ä");
    assert_eq!(client.get("/events").await.body["letters"].as_array().unwrap().len(), 2);
    served.close().await;
}

#[tokio::test]
async fn what_makes_no_sense_of_a_key_is_refused_with_the_reason() {
    let served = Served::by(admin(MemoryStore::new())).await;
    let client = &served.client;
    let long = "x".repeat(limits::ORDERING_KEY_CHARS + 1);
    let too_long = client.get(&format!("/keys/{long}")).await;
    assert_eq!(too_long.problem(), (400, "bad-request"));
    assert!(too_long.detail().starts_with("ordering_key has 129 characters"));
    for (path, said) in [
        ("/keys?limit=0", "limit is 0"),
        ("/keys?limit=501", "limit is 501"),
        ("/keys?after=zz", "after is not what the page before gave"),
        ("/keys?topic=a", "unknown field"),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.problem(), (400, "bad-request"), "{path}");
        assert!(answer.detail().contains(said), "{}", answer.detail());
    }
    for body in [
        r#"{"actor": "", "reason": "why"}"#,
        r#"{"actor": "ann", "reason": " "}"#,
        r#"{"actor": "ann", "reason": "why", "event_id": "7"}"#,
        r#"{"actor": "ann", "reason": "why", "key": "a"}"#,
    ] {
        let answer = client.post_json("/keys/a/resume", body).await;
        assert_eq!(answer.problem(), (400, "bad-request"), "{body}");
    }
    assert_eq!(client.with(&[]).get("/keys").await.problem(), (401, "no-token"));
    served.close().await;
}
