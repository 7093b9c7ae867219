//! `sendoff_emit`: events from any language.

use std::time::Duration;

use sendoff_core::order::IN_LINE;
use sendoff_core::{Event, EventId, Status};
use sendoff_engine::store::InspectStore;
use sendoff_postgres::PostgresStore;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::order::{run_of, take_one};
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
    assert_eq!((row.due_at, row.delayed_until), (IN_LINE, None), "it has a key");
    let key = take_one(&store, "a").await;
    assert_eq!(run_of(&store, &key).await.rows[0].id, id);
    let id = emit(&client, "sendoff_emit('t', '1')").await;
    let row = store.find(id).await.unwrap().unwrap();
    assert_eq!(row.due_at, row.created_at);
    assert_eq!(claim(&store, "a").await[0].id, id);
}

#[tokio::test]
async fn payloads_are_json_text_or_bytes() {
    const JSON: &str = "application/json";
    let (_place, store, client) = shop().await;
    for (call, payload, content_type) in [
        ("sendoff_emit('t', jsonb '{\"b\":1,\"a\":[]}')", &b"{\"a\": [], \"b\": 1}"[..], JSON),
        ("sendoff_emit('t', json '{\"b\":1,  \"a\":[]}')", b"{\"b\":1,  \"a\":[]}", JSON),
        ("sendoff_emit('t', '{\"b\":1,  \"b\":2}')", b"{\"b\":1,  \"b\":2}", JSON),
        ("sendoff_emit('t', '{\"b\":1}'::text)", b"{\"b\":1}", JSON),
        ("sendoff_emit('t', '{\"b\":1}'::varchar)", b"{\"b\":1}", JSON),
        ("sendoff_emit(event_type => 't', payload => '\"\\u0000\"')", b"\"\\u0000\"", JSON),
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
    // Nothing of a payload is in an error.
    let deep = "[".repeat(20_000);
    let calls = [
        ("'', 'S'", "event_type must not be empty"),
        ("null, 'S'", "event_type must not be empty"),
        ("repeat('ä', 129), 'S'", "event_type has 129 characters; the limit is 128"),
        ("E'a\\nb', 'S'", "event_type must not contain a line break"),
        (
            "'t', 'S', aggregate_type => repeat('x', 65)",
            "aggregate_type has 65 characters; the limit is 64",
        ),
        ("'t', 'S', aggregate_type => ''", "aggregate_type must not be empty"),
        (
            "'t', 'S', aggregate_id => repeat('x', 129)",
            "aggregate_id has 129 characters; the limit is 128",
        ),
        ("'t', 'S', tenant_id => repeat('x', 65)", "tenant_id has 65 characters; the limit is 64"),
        ("'t', 'S', aggregate_type => E'a\\rb'", "aggregate_type must not contain a line break"),
        ("'t', 'S', aggregate_id => E'a\\rb'", "aggregate_id must not contain a line break"),
        ("'t', 'S', tenant_id => E'a\\nb'", "tenant_id must not contain a line break"),
        ("'t', 'S', ordering_key => E'\\n'", "ordering_key must not contain a line break"),
        (
            "'t', 'S', ordering_key => repeat('x', 129)",
            "ordering_key has 129 characters; the limit is 128",
        ),
        (
            "'t', 'S', content_type => repeat('x', 129)",
            "content_type has 129 characters; the limit is 128",
        ),
        ("'t', 'S', content_type => null", "content_type is missing"),
        (
            "'t', convert_to(repeat('x', 1048577), 'UTF8')",
            "payload is 1048577 bytes; the limit is 1048576",
        ),
        ("'t', repeat('x', 1048577)", "payload is 1048577 bytes; the limit is 1048576"),
        ("'t', to_json(repeat('x', 1048575))", "payload is 1048577 bytes; the limit is 1048576"),
        ("'t', to_jsonb(repeat('x', 1048575))", "payload is 1048577 bytes; the limit is 1048576"),
        ("'t', null", "payload is missing"),
        ("'t', null::text", "payload is missing"),
        ("'t', null::bytea", "payload is missing"),
        ("'t', null::json", "payload is missing"),
        ("'t', null::jsonb", "payload is missing"),
        ("'t', 'S3CRET'", "payload is not valid JSON: 6 bytes"),
        ("'t', '{\"a\": S3CRET}'", "payload is not valid JSON: 13 bytes"),
        ("'t', ''", "payload is not valid JSON: 0 bytes"),
        ("'t', 'D'", "payload is nested too deeply to be read as JSON: 20000 bytes"),
        ("'t', 'S', headers => '[]'", "headers must be a JSON object whose values are strings"),
        (
            "'t', 'S', headers => '{\"a\": 1}'",
            "headers must be a JSON object whose values are strings",
        ),
        ("'t', 'S', headers => '{\"\": \"x\"}'", "header name must not be empty"),
        ("'t', 'S', headers => '{\"a\": \"x\\ny\"}'", "header value must not contain a line break"),
        (
            "'t', 'S', headers => jsonb_build_object(repeat('n', 129), 'x')",
            "header name has 129 characters; the limit is 128",
        ),
        (
            "'t', 'S', headers => (select jsonb_object_agg(n, 'x') from generate_series(1, 65) n)",
            "headers: 65 given; the limit is 64",
        ),
        (
            "'t', 'S', headers => jsonb_build_object('a', repeat('x', 32768))",
            "headers are 32769 bytes together; the limit is 32768",
        ),
        (
            "'t', 'S', delay => '3651 days'",
            "delay is 3651 days; it must lie between 0 and 3650 days",
        ),
        (
            "'t', 'S', delay => '-1 second'",
            "delay is -00:00:01; it must lie between 0 and 3650 days",
        ),
        ("'t', 'S', delay => null", "delay is null; it must lie between 0 and 3650 days"),
    ];
    for (arguments, expected) in calls {
        let call = arguments.replace("'S'", "'\"S3CRET\"'").replace("'D'", &format!("'{deep}'"));
        let refused = client.query_one(&format!("select sendoff_emit({call})"), &[]).await;
        let error = refused.expect_err(&call);
        let error = error.as_db_error().expect(&call);
        assert_eq!(error.message(), expected, "{call}");
        let rest = [error.detail(), error.where_(), error.hint()].map(Option::unwrap_or_default);
        assert!(rest.iter().all(|text| !text.contains("S3CRET")), "{call}: {rest:?}");
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

/// Drivers that leave the types of parameters to the server send text.
#[tokio::test]
async fn a_parameter_without_a_type_is_text() {
    let (_place, store, client) = shop().await;
    let emit = client.prepare("select sendoff_emit($1, $2)::text").await.unwrap();
    assert!(emit.params().iter().all(|kind| *kind == Type::TEXT), "{:?}", emit.params());
    let json = "{\"who\":  \"Zoë\"}";
    let id: String = client.query_one(&emit, &[&"t", &json]).await.unwrap().get(0);
    let event = store.find(id.parse().unwrap()).await.unwrap().unwrap().event;
    assert_eq!((&event.payload()[..], event.content_type()), (json.as_bytes(), "application/json"));
}

/// A second event cannot take the place of the first.
#[tokio::test]
async fn an_id_that_is_there_is_named() {
    let (place, _store, client) = shop().await;
    let call = "sendoff_emit('t', '1', event_id => '0190a9c4-0000-7000-8000-000000000001')";
    emit(&client, call).await;
    let error = client.query_one(&format!("select {call}"), &[]).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(*error.code(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(
        error.message(),
        "an event with the event_id 0190a9c4-0000-7000-8000-000000000001 is there already"
    );
    assert_eq!(place.rows().await, 1);
}
