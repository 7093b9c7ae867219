//! `journal_append` from any language.

use sendoff_core::journal::{Locks, Mode, Query};
use sendoff_testkit::journal::by_sql::{appends, one_registers, registered_as, unless};
use sendoff_testkit::journal::facts::tag;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{journal, journal_with, partitioned};
use crate::place::Place;

async fn client(place: &Place) -> Client {
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    client
}

async fn refusal(client: &Client, call: &str) -> (SqlState, String) {
    let error = client.query_one(&format!("select journal_append({call})"), &[]).await;
    let error = error.expect_err(call);
    let error = error.as_db_error().expect(call);
    let rest = [error.detail(), error.where_(), error.hint()].map(Option::unwrap_or_default);
    assert!(rest.iter().all(|text| !text.contains("S3CRET")), "{call}: {rest:?}");
    (error.code().clone(), error.message().to_owned())
}

/// Holds J1 for writers that are not ours: whoever excludes one another has a lock in common.
#[tokio::test]
async fn the_locks_are_those_of_the_library() {
    let place = Place::new();
    journal(&place).await;
    let client = client(&place).await;
    let keys = "select key, alone from journal_keys($1, $2, journal_condition($3::text::jsonb))";
    let keys = client.prepare(keys).await.unwrap();
    for append in appends() {
        let fact = &append.facts()[0];
        let query = append.condition().map(|condition| &condition.query);
        let tags: Vec<_> = fact.tags().iter().map(|tag| tag.as_str()).collect();
        let rows = client
            .query(&keys, &[&fact.event().event_type(), &tags, &query.map(unless)])
            .await
            .unwrap();
        let found: Vec<(i32, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let locks = Locks::of_append(append.facts(), query);
        let expected: Vec<_> =
            locks.iter().map(|lock| (lock.key, lock.mode == Mode::Exclusive)).collect();
        assert_eq!(found, expected, "{append:?}");
    }
}

/// Holds J1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_register_a_name_one_by_sql_exactly_one_does() {
    for in_partitions in [false, true] {
        let place = Place::new();
        let journal = if in_partitions {
            journal_with(&place, partitioned(&place, 1_000)).await
        } else {
            journal(&place).await
        };
        let client = client(&place).await;
        one_registers(&journal, async |name| {
            let tag = registered_as(name);
            let query = Query::of(
                sendoff_core::journal::Item::any()
                    .of_type("name.registered")
                    .tagged(self::tag(&tag)),
            );
            let call =
                "select journal_append('name.registered', '{}', array[$1::text], $2::text::jsonb)";
            match client.query_one(call, &[&tag, &unless(&query)]).await {
                Ok(_) => true,
                Err(error) if error.code() == Some(&SqlState::EXCLUSION_VIOLATION) => false,
                Err(error) => panic!("{error:?}"),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_fact_by_sql_is_read_as_it_was_given() {
    let place = Place::new();
    let journal = journal(&place).await;
    let client = client(&place).await;
    let call = "select journal_append('wallet.opened', '{\"b\":  \"Zoë\"}', '{z=2,a=1,z=2}',
        headers => '{\"source\": \"shop\"}', event_id => '0190a9c4-0000-7000-8000-000000000001',
        correlation_id => '0190a9c4-0000-7000-8000-000000000002',
        causation_id => '0190a9c4-0000-7000-8000-000000000003')";
    let first: i64 = client.query_one(call, &[]).await.unwrap().get(0);
    let again: i64 = client.query_one(call, &[]).await.unwrap().get(0);
    assert_eq!(first, again, "it was there already");
    client.query_one("select journal_append('t', '\\x00ff'::bytea)", &[]).await.unwrap();
    client.query_one("select journal_append('t', json '{\"b\":  1}')", &[]).await.unwrap();
    client.query_one("select journal_append('t', jsonb '{\"b\":  1}')", &[]).await.unwrap();
    let facts = super::facts(&journal).await;
    let payloads: Vec<_> = facts.iter().map(|fact| fact.event().payload().to_vec()).collect();
    let expected: [&[u8]; 4] =
        ["{\"b\":  \"Zoë\"}".as_bytes(), b"\x00\xff", b"{\"b\":  1}", b"{\"b\": 1}"];
    assert_eq!(payloads, expected);
    let fact = &facts[0];
    let tags: Vec<_> = fact.tags().iter().map(|tag| tag.as_str()).collect();
    assert_eq!(tags, ["a=1", "z=2"]);
    assert_eq!(fact.event().headers().get("source"), Some("shop"));
    assert_eq!(fact.event().content_type(), "application/json");
    assert_eq!(facts[1].event().content_type(), "application/octet-stream");
    assert!(fact.fact.correlation_id().is_some() && fact.fact.causation_id().is_some());
}

/// Holds E2 for writers that are not ours.
#[tokio::test]
async fn what_cannot_be_appended_is_refused_and_shows_no_payload() {
    let place = Place::new();
    let journal = journal(&place).await;
    let client = client(&place).await;
    let many = |count: usize, one: &str| {
        (0..count).map(|n| one.replace('#', &n.to_string())).collect::<Vec<_>>().join(",")
    };
    for (call, expected) in [
        ("null, '1'".into(), "event_type must not be empty"),
        ("repeat('ä', 129), '1'".into(), "event_type has 129 characters; the limit is 128"),
        ("'t', null".into(), "payload is missing"),
        ("'t', 'S3CRET'".into(), "payload is not valid JSON: 6 bytes"),
        ("'t', repeat('1', 1048577)".into(), "payload is 1048577 bytes; the limit is 1048576"),
        ("'t', '1', '{S3}'".into(), "a tag is written key=value; neither may be empty"),
        ("'t', '1', '{=1}'".into(), "a tag is written key=value; neither may be empty"),
        ("'t', '1', '{a=}'".into(), "a tag is written key=value; neither may be empty"),
        ("'t', '1', array[null]".into(), "a tag is written key=value; neither may be empty"),
        (
            "'t', '1', array[repeat('k', 65) || '=v']".into(),
            "tag key has 65 characters; the limit is 64",
        ),
        (
            "'t', '1', array['k=' || repeat('v', 129)]".into(),
            "tag value has 129 characters; the limit is 128",
        ),
        (format!("'t', '1', '{{{}}}'", many(65, "k=#")), "tags: 65 given; the limit is 64"),
        (
            "'t', '1', unless => '7'".into(),
            "unless must be an array of items, such as [{\"types\": [\"a\"], \"tags\": [\"k=v\"]}]",
        ),
        (
            "'t', '1', unless => '[{\"tag\": []}]'".into(),
            "an item of unless has \"types\" and \"tags\", which are arrays of strings",
        ),
        (
            "'t', '1', unless => '[{\"tags\": [1]}]'".into(),
            "an item of unless has \"types\" and \"tags\", which are arrays of strings",
        ),
        (
            format!("'t', '1', unless => '[{}]'", many(257, "{}")),
            "items of unless: 257 given; the limit is 256",
        ),
        ("'t', '1', after => -1".into(), "after is -1; it must be a position, 0 or more"),
        (
            "'t', '1', headers => '{\"a\": 1}'".into(),
            "headers must be a JSON object whose values are strings",
        ),
    ] {
        let (_, said) = refusal(&client, &call).await;
        assert_eq!(said, expected, "{call}");
    }
    assert!(super::facts(&journal).await.is_empty());

    client.query_one("select journal_append('t', '1', '{a=1}')", &[]).await.unwrap();
    let (code, said) = refusal(&client, "'t', '1', '{a=1}', '{\"tags\": [\"a=1\"]}'").await;
    assert_eq!(code, SqlState::EXCLUSION_VIOLATION);
    assert_eq!(said, "the condition does not hold: there is such a fact at position 1");
    client
        .query_one("select journal_append('t', '1', '{a=1}', '{\"tags\": [\"a=1\"]}', 1)", &[])
        .await
        .unwrap();
    let id = "event_id => '0190a9c4-0000-7000-8000-000000000001'";
    client.query_one(&format!("select journal_append('t', '1', {id})"), &[]).await.unwrap();
    let (code, said) = refusal(&client, &format!("'t', '2', {id}")).await;
    assert_eq!(code, SqlState::UNIQUE_VIOLATION);
    assert!(said.contains("0190a9c4-0000-7000-8000-000000000001"), "{said}");
    client.batch_execute("begin isolation level repeatable read").await.unwrap();
    let (code, _) = refusal(&client, "'t', '1', '{a=1}', '[]'").await;
    assert_eq!(code, SqlState::INVALID_TRANSACTION_STATE);
    client.batch_execute("rollback").await.unwrap();
}
