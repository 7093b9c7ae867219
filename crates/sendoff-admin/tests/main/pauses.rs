//! Delivery of an outbox is paused and resumed while it runs.

use std::sync::Arc;

use sendoff_admin::Admin;
use sendoff_core::limits;
use sendoff_engine::DeadLetters;
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::PauseStore;
use sendoff_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::client::Client;
use crate::mariadb;
use crate::postgres::Place;
use crate::served::{Served, token};

fn admin(store: impl PauseStore) -> Admin {
    let letters = DeadLetters::new(Arc::new(MemoryStore::new()));
    Admin::outbox(letters).with_pauses(store).token(token())
}

async fn order(client: &Client, path: &str, scope: &str) -> (u16, Value) {
    let body = json!({ "scope": scope, "actor": "ann", "reason": "an incident" });
    let answer = client.post_json(path, &body.to_string()).await;
    (answer.status, answer.body)
}

async fn pause_and_resume(store: impl PauseStore + Clone) {
    let served = Served::by(admin(store.clone())).await;
    let client = &served.client;
    assert_eq!(client.get("/pauses").await.body, json!({ "pauses": [] }));
    let (status, body) = order(client, "/pauses", "type:order.mailed").await;
    assert_eq!((status, &body["changed"]), (200, &json!(true)));
    let (_, again) = order(client, "/pauses", "type:order.mailed").await;
    assert_eq!(again["changed"], false);
    order(client, "/pauses", "all").await;
    let listed = client.get("/pauses").await.body;
    assert_eq!(listed["pauses"].as_array().unwrap().len(), 2);
    let (all, mails) = (&listed["pauses"][0], &listed["pauses"][1]);
    assert_eq!((&all["scope"], &mails["scope"]), (&json!("all"), &json!("type:order.mailed")));
    assert_eq!((&mails["actor"], &mails["reason"]), (&json!("ann"), &json!("an incident")));
    assert!(mails["since"].as_str().unwrap().ends_with('Z'), "{mails}");
    let (status, body) = order(client, "/pauses/resume", "all").await;
    assert_eq!((status, &body["changed"]), (200, &json!(true)));
    assert_eq!(body["now"]["pauses"].as_array().unwrap().len(), 1);
    let (_, again) = order(client, "/pauses/resume", "all").await;
    assert_eq!(again["changed"], false);
    assert_eq!(store.pauses().await.unwrap().len(), 1);
    served.close().await;
}

#[tokio::test]
async fn delivery_is_paused_and_resumed() {
    pause_and_resume(MemoryStore::new()).await;
    let folder = tempfile::tempdir().unwrap();
    pause_and_resume(SqliteStore::open(folder.path().join("shop.db")).await.unwrap()).await;
    if let Some(place) = Place::new() {
        pause_and_resume(place.outbox().await).await;
        place.drop().await;
    }
    if let Some(place) = mariadb::Place::new().await {
        pause_and_resume(place.outbox().await).await;
        place.drop().await;
    }
}

#[tokio::test]
async fn what_cannot_be_paused_is_refused_with_the_reason() {
    let store = MemoryStore::new();
    let served = Served::by(admin(store.clone())).await;
    let client = &served.client;
    for (scope, actor, reason, said) in [
        ("order.mailed", "ann", "why", "scope: what is paused is `all`, `type:`"),
        ("type:", "ann", "why", "scope: event type must not be empty"),
        ("all", "", "why", "actor must not be empty"),
        ("all", "ann", " ", "reason must not be empty"),
        ("all", "ann", "a\nb", "reason must not contain '\\n'"),
    ] {
        let body = json!({ "scope": scope, "actor": actor, "reason": reason }).to_string();
        for path in ["/pauses", "/pauses/resume"] {
            let answer = client.post_json(path, &body).await;
            assert_eq!(answer.problem(), (400, "bad-request"));
            assert!(answer.detail().starts_with(said), "{}", answer.detail());
        }
    }
    let unknown = r#"{"scope": "all", "actor": "ann", "reason": "why", "topic": "x"}"#;
    assert_eq!(client.post_json("/pauses", unknown).await.problem(), (400, "bad-request"));
    assert_eq!(client.with(&[]).get("/pauses").await.problem(), (401, "no-token"));
    for number in 0..limits::PAUSES {
        assert_eq!(order(client, "/pauses", &format!("type:{number}")).await.0, 200);
    }
    let body = json!({ "scope": "type:more", "actor": "ann", "reason": "why" }).to_string();
    assert_eq!(client.post_json("/pauses", &body).await.problem(), (409, "too-many-pauses"));
    // The longest that there may be fits, however it is written.
    let reason = "\\u00e4".repeat(limits::REASON_CHARS);
    let actor = "\\u00e4".repeat(limits::ACTOR_CHARS);
    let scope = "\\u00e4".repeat(limits::EVENT_TYPE_CHARS);
    let body = format!(r#"{{"scope":"type:{scope}","actor":"{actor}","reason":"{reason}"}}"#);
    assert_eq!(client.post_json("/pauses/resume", &body).await.status, 200);
    served.close().await;
}
