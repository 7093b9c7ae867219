//! `sendoff_emit`: events from any language.

use std::time::Duration;

use sendoff_core::{Event, EventId, Status};
use sendoff_engine::store::InspectStore;
use sendoff_postgres::PostgresStore;
use tokio_postgres::Client;

use crate::place::{Place, claim};

async fn shop() -> (Place, PostgresStore, Client) {
    let place = Place::new();
    let (store, client) = (place.store().await, place.client().await);
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    (place, store, client)
}

async fn emit(client: &Client, call: &str) -> EventId {
    let row = client.query_one(&format!("select ({call})::text"), &[]).await.unwrap();
    row.get::<_, String>(0).parse().unwrap()
}

#[tokio::test]
async fn every_argument_can_be_named_and_arrives() {
    let (_place, store, client) = shop().await;
    let id = EventId::generate();
    let call = format!(
        "sendoff_emit('order.placed', '{{\"b\": 1,  \"a\": 2}}', aggregate_type => 'order',
             aggregate_id => '4711', tenant_id => 'acme', ordering_key => 'order-4711',
             headers => '{{\"source\": \"shop\"}}', event_id => '{id}')"
    );
    assert_eq!(emit(&client, &call).await, id);
    let row = store.find(id).await.unwrap().unwrap();
    let expected = Event::builder("order.placed")
        .id(id)
        .aggregate("order", "4711")
        .tenant_id("acme")
        .ordering_key("order-4711")
        .header("source", "shop")
        .occurred_at(row.event.occurred_at())
        .json_text("{\"b\": 1,  \"a\": 2}")
        .build()
        .unwrap();
    assert_eq!(row.event.as_ref(), expected.as_ref(), "text is kept to the byte");
    assert_eq!((row.status, row.attempts, row.locked_by), (Status::New, 0, None));
    assert_eq!(row.due_at, row.created_at);
    assert_eq!(claim(&store, "a").await[0].id, id);
}

#[tokio::test]
async fn payloads_are_jsonb_text_or_bytes() {
    let (_place, store, client) = shop().await;
    for (call, payload, content_type) in [
        (
            "sendoff_emit('t', jsonb '{\"b\":1,\"a\":[]}')",
            &b"{\"a\": [], \"b\": 1}"[..],
            "application/json",
        ),
        ("sendoff_emit('t', '{\"b\":1}'::text)", b"{\"b\":1}", "application/json"),
        ("sendoff_emit('t', 'not json', content_type => 'text/plain')", b"not json", "text/plain"),
        ("sendoff_emit('t', '\\x00ff'::bytea)", b"\x00\xff", "application/octet-stream"),
        ("sendoff_emit('t', ''::bytea, content_type => 'x/y')", b"", "x/y"),
    ] {
        let id = emit(&client, call).await;
        let event = store.find(id).await.unwrap().unwrap().event;
        assert_eq!(&event.payload()[..], payload, "{call}");
        assert_eq!(event.content_type(), content_type, "{call}");
        assert!(event.headers().is_empty());
        assert_eq!(event.aggregate_type(), "__GLOBAL__");
    }
}

#[tokio::test]
async fn ids_are_time_ordered_and_shards_are_ours() {
    let (place, store, client) = shop().await;
    let mut last = EventId::from_bytes([0; 16]);
    for n in 0..20 {
        let key = if n % 2 == 0 { "null".into() } else { format!("'schlüssel {n}'") };
        let id = emit(&client, &format!("sendoff_emit('t', '1', ordering_key => {key})")).await;
        assert_eq!(id.to_string().as_bytes()[14], b'7', "a UUIDv7");
        let millis = |id: EventId| id.as_bytes()[..6].to_vec();
        assert!(millis(id) >= millis(last), "{id} after {last}");
        last = id;
        let event = store.find(id).await.unwrap().unwrap().event;
        let shard = format!("select shard::bigint from outbox_event where event_id = '{id}'");
        assert_eq!(place.number(&shard).await, i64::from(event.shard()), "{key}");
    }
}

#[tokio::test]
async fn a_delay_is_kept_exactly() {
    let (_place, store, client) = shop().await;
    let id = emit(&client, "sendoff_emit('t', '1', delay => '90 seconds')").await;
    let row = store.find(id).await.unwrap().unwrap();
    assert_eq!(row.due_at.since(row.created_at), Duration::from_secs(90));
    assert!(claim(&store, "a").await.is_empty());
}

/// Holds E2, E5 and W6 for writers that are not ours: at the limit, and one beyond.
#[tokio::test]
async fn the_limits_are_those_of_every_writer() {
    let (place, _store, client) = shop().await;
    let at_the_limit = [
        "sendoff_emit(repeat('ä', 128), '1')",
        "sendoff_emit('t', '1', aggregate_type => repeat('x', 64))",
        "sendoff_emit('t', '1', aggregate_id => repeat('x', 128))",
        "sendoff_emit('t', '1', tenant_id => repeat('x', 64))",
        "sendoff_emit('t', '1', ordering_key => repeat('x', 128))",
        "sendoff_emit('t', convert_to(repeat('x', 1048576), 'UTF8'))",
        "sendoff_emit('t', '1', headers => (select jsonb_object_agg(n, 'x') from generate_series(1, 64) n))",
        "sendoff_emit('t', '1', headers => '{}')",
        "sendoff_emit('t', '1', delay => '3650 days')",
    ];
    for call in at_the_limit {
        emit(&client, call).await;
    }
    for call in [
        "sendoff_emit('', '1')",
        "sendoff_emit(null, '1')",
        "sendoff_emit(repeat('ä', 129), '1')",
        "sendoff_emit(E'a\\nb', '1')",
        "sendoff_emit('t', '1', aggregate_type => repeat('x', 65))",
        "sendoff_emit('t', '1', aggregate_type => '')",
        "sendoff_emit('t', '1', aggregate_id => repeat('x', 129))",
        "sendoff_emit('t', '1', tenant_id => repeat('x', 65))",
        "sendoff_emit('t', '1', ordering_key => repeat('x', 129))",
        "sendoff_emit('t', '1', content_type => repeat('x', 129))",
        "sendoff_emit('t', convert_to(repeat('x', 1048577), 'UTF8'))",
        "sendoff_emit('t', null::text)",
        "sendoff_emit('t', null::bytea)",
        "sendoff_emit('t', 'not json')",
        "sendoff_emit('t', '1', headers => '[]')",
        "sendoff_emit('t', '1', headers => '{\"a\": 1}')",
        "sendoff_emit('t', '1', headers => '{\"\": \"x\"}')",
        "sendoff_emit('t', '1', headers => '{\"a\": \"x\\ny\"}')",
        "sendoff_emit('t', '1', headers => (select jsonb_object_agg(n, 'x') from generate_series(1, 65) n))",
        "sendoff_emit('t', '1', headers => jsonb_build_object('a', repeat('x', 32768)))",
        "sendoff_emit('t', '1', delay => '3651 days')",
        "sendoff_emit('t', '1', delay => '-1 second')",
    ] {
        let refused = client.query_one(&format!("select {call}"), &[]).await;
        let error = refused.expect_err(call);
        assert!(error.as_db_error().is_some(), "{call}: {error}");
    }
    assert_eq!(place.rows().await, at_the_limit.len() as i64);
}

/// Holds W3 for writers that are not ours.
#[tokio::test]
async fn a_rolled_back_emit_leaves_nothing() {
    let (place, _store, mut client) = shop().await;
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("select sendoff_emit('t', '1')").await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(place.rows().await, 0);
}
