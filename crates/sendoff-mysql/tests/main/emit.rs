//! `sendoff_emit`: events from any language.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
use sendoff_core::order::{KeyToken, is_in_line};
use sendoff_core::{Event, EventId, Status};
use sendoff_engine::store::{InspectStore, KeyStore, RunsWanted, TakenKey};
use sendoff_mysql::{Layout, MysqlOptions, MysqlStore, Payloads, Period};

use crate::place::{MARIADB, MYSQL, Place, claim};

/// Sessions as applications have them, with whatever sets they came with.
const SESSIONS: [&str; 4] = [
    "set names utf8mb4",
    "set sql_mode = ''; set names utf8mb4 collate utf8mb4_unicode_ci",
    "set sql_mode = 'ANSI,TRADITIONAL,NO_BACKSLASH_ESCAPES'",
    "set sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE,HIGH_NOT_PRECEDENCE', sql_safe_updates = 1, \
     time_zone = '+05:30', group_concat_max_len = 4",
];

async fn emit(conn: &mut Conn, arguments: &str) -> EventId {
    conn.query_drop(format!("call sendoff_emit({arguments}, @id)")).await.unwrap();
    let id: String = conn.query_first("select @id").await.unwrap().unwrap();
    id.parse().unwrap()
}

async fn event(store: &MysqlStore, id: EventId) -> Event {
    store.find(id).await.unwrap().unwrap().event
}

#[tokio::test]
async fn every_option_arrives_in_every_session() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        for session in SESSIONS {
            conn.query_drop(session).await.unwrap();
            let id = EventId::generate();
            let arguments = format!(
                "'order.placed', '{{\"b\": \"Zoë\",  \"a\": 2}}', '{{\"aggregate_type\": \"order\",
                 \"aggregate_id\": \"4711\", \"tenant_id\": \"acme\", \"ordering_key\": \"schlüssel\",
                 \"headers\": {{\"source\": \"shop\", \"b\": \"{{}}\"}}, \"event_id\": \"{id}\"}}'"
            );
            assert_eq!(emit(&mut conn, &arguments).await, id, "{session}");
            let row = store.find(id).await.unwrap().unwrap();
            let expected = Event::builder("order.placed")
                .id(id)
                .aggregate("order", "4711")
                .tenant_id("acme")
                .ordering_key("schlüssel")
                .header("source", "shop")
                .header("b", "{}")
                .occurred_at(row.event.occurred_at())
                .json_text("{\"b\": \"Zoë\",  \"a\": 2}")
                .build()
                .unwrap();
            assert_eq!(row.event.as_ref(), expected.as_ref(), "{session}");
            assert_eq!((row.status, row.attempts, row.locked_by), (Status::New, 0, None));
            assert!(is_in_line(row.due_at) && row.delayed_until.is_none(), "{session}");
            let key = TakenKey {
                key: "schlüssel".into(),
                token: KeyToken::new(row.created_at),
                run: 100,
                lost: false,
            };
            let wanted = RunsWanted { keys: &[key], bytes: usize::MAX };
            let run = store.runs(&wanted).await.unwrap().remove(0);
            assert_eq!(run.rows.last().map(|row| row.id), Some(id), "{session}");
        }
    }
}

#[tokio::test]
async fn payloads_are_kept_to_the_byte() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        let all: Vec<u8> = (0..=255).collect();
        let hex: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
        let bytes = format!("'t', x'{hex}', '{{\"content_type\": \"x/y\"}}'");
        let id = emit(&mut conn, &bytes).await;
        let found = event(&store, id).await;
        assert_eq!((&found.payload()[..], found.content_type()), (&all[..], "x/y"));
        // As a parameter of a prepared statement, which is how most drivers call it.
        let call = "call sendoff_emit(?, ?, ?, @id)";
        let options = "{\"content_type\": \"x/y\"}";
        conn.exec_drop(call, ("t", all.clone(), options)).await.unwrap();
        let id: String = conn.query_first("select @id").await.unwrap().unwrap();
        assert_eq!(&event(&store, id.parse().unwrap()).await.payload()[..], all);
        // Text in another character set is no JSON in UTF-8.
        let foreign = "call sendoff_emit('t', convert('\"ä\"' using latin1), null, @id)";
        let Err(Error::Server(refusal)) = conn.query_drop(foreign).await else {
            panic!("{foreign}")
        };
        assert_eq!(
            refusal.message,
            "payload is not valid JSON in UTF-8, or nested deeper than this server reads: 3 bytes"
        );
        conn.query_drop("set names latin1").await.unwrap();
        let id = emit(&mut conn, "'t', '{\"a\":1}', null").await;
        assert_eq!(&event(&store, id).await.payload()[..], b"{\"a\":1}");
    }
}

#[tokio::test]
async fn ids_are_time_ordered_and_shards_are_ours() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        let mut last = EventId::from_bytes([0; 16]);
        for n in 0..20 {
            let options = match n % 2 {
                0 => "null".to_owned(),
                _ => format!("'{{\"ordering_key\": \"schlüssel {n}\"}}'"),
            };
            let id = emit(&mut conn, &format!("'t', '1', {options}")).await;
            let text = id.to_string();
            assert_eq!(text.as_bytes()[14], b'7', "a UUIDv7");
            assert!(b"89ab".contains(&text.as_bytes()[19]), "{text}");
            let millis = |id: EventId| id.as_bytes()[..6].to_vec();
            assert!(millis(id) >= millis(last), "{id} after {last}");
            last = id;
            let hex = text.replace('-', "");
            let shard = format!("select shard from outbox_event where event_id = x'{hex}'");
            assert_eq!(place.number(&shard).await, i64::from(event(&store, id).await.shard()));
        }
        let now = sendoff_core::Timestamp::now().as_micros() / 1000;
        let made = last.as_bytes()[..6].iter().fold(0i64, |sum, byte| sum * 256 + i64::from(*byte));
        assert!((now - made).abs() < 60_000, "{made} is not about {now}");
    }
}

#[tokio::test]
async fn a_delay_is_kept_exactly() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let id = emit(&mut place.conn().await, "'t', '1', '{\"delay_seconds\": 90.5}'").await;
        let row = store.find(id).await.unwrap().unwrap();
        assert_eq!(row.due_at.since(row.created_at), Duration::from_millis(90_500));
        assert!(claim(&store, "a").await.is_empty());
        assert_eq!(place.number("select delayed_until = due_at from outbox_event").await, 1);
    }
}

/// Holds E2, E5 and W6 for writers that are not ours: at the limit, and one beyond, in sessions that are
/// strict and that are not.
#[tokio::test]
async fn the_limits_are_those_of_every_writer() {
    let at_the_limit = [
        "repeat('ä', 128), '1', null",
        "'t', '1', json_object('aggregate_type', repeat('x', 64))",
        "'t', '1', json_object('aggregate_id', repeat('x', 128))",
        "'t', '1', json_object('tenant_id', repeat('x', 64))",
        "'t', '1', json_object('ordering_key', repeat('x', 128))",
        "'t', concat('\"', repeat('x', 1048574), '\"'), null",
        "'t', '1', '{\"headers\": {}}'",
        "'t', '1', json_object('headers', json_object('a', repeat('x', 32767)))",
        "'t', '1', '{\"delay_seconds\": 315360000}'",
        "'t', '1', '{\"tenant_id\": null}'",
        "'t', '1', 'null'",
        "'t', '', '{\"content_type\": \"x/y\"}'",
    ];
    let headers = |count: usize| {
        let headers: Vec<_> = (0..count).map(|n| format!("\"h{n}\": \"x\"")).collect();
        format!("'t', 'S', '{{\"headers\": {{{}}}}}'", headers.join(","))
    };
    let refused = [
        ("'', 'S', null".to_owned(), "event_type must not be empty"),
        ("null, 'S', null".into(), "event_type must not be empty"),
        ("repeat('ä', 129), 'S', null".into(), "event_type has 129 characters; the limit is 128"),
        (
            "concat('a', char(10), 'b'), 'S', null".into(),
            "event_type must not contain a line break or NUL",
        ),
        (
            "concat('a', char(0)), 'S', null".into(),
            "event_type must not contain a line break or NUL",
        ),
        (
            "'t', 'S', json_object('aggregate_type', repeat('x', 65))".into(),
            "aggregate_type has 65 characters; the limit is 64",
        ),
        ("'t', 'S', '{\"aggregate_type\": \"\"}'".into(), "aggregate_type must not be empty"),
        (
            "'t', 'S', json_object('aggregate_id', repeat('x', 129))".into(),
            "aggregate_id has 129 characters; the limit is 128",
        ),
        (
            "'t', 'S', json_object('tenant_id', repeat('x', 65))".into(),
            "tenant_id has 65 characters; the limit is 64",
        ),
        ("'t', 'S', '{\"tenant_id\": 7}'".into(), "tenant_id must be a JSON string"),
        (
            "'t', 'S', json_object('ordering_key', repeat('x', 129))".into(),
            "ordering_key has 129 characters; the limit is 128",
        ),
        (
            "'t', 'S', json_object('content_type', repeat('x', 129))".into(),
            "content_type has 129 characters; the limit is 128",
        ),
        (
            "'t', repeat('1', 1048577), null".into(),
            "payload is 1048577 bytes; the limit is 1048576",
        ),
        ("'t', null, null".into(), "payload is missing"),
        (
            "'t', 'S3CRET', null".into(),
            "payload is not valid JSON in UTF-8, or nested deeper than this server reads: 6 bytes",
        ),
        (
            "'t', '', null".into(),
            "payload is not valid JSON in UTF-8, or nested deeper than this server reads: 0 bytes",
        ),
        (
            "'t', x'22ff22', null".into(),
            "payload is not valid JSON in UTF-8, or nested deeper than this server reads: 3 bytes",
        ),
        ("'t', 'S', 'x'".into(), "options must be a JSON object, or null"),
        ("'t', 'S', '[]'".into(), "options must be a JSON object, or null"),
        ("'t', 'S', '{\"tenant\": \"a\"}'".into(), "options: tenant is not known"),
        (
            "'t', 'S', '{\"headers\": []}'".into(),
            "headers must be a JSON object whose values are strings",
        ),
        (
            "'t', 'S', '{\"headers\": {\"a\": 1}}'".into(),
            "headers must be a JSON object whose values are strings",
        ),
        ("'t', 'S', '{\"headers\": {\"\": \"x\"}}'".into(), "header name must not be empty"),
        (
            "'t', 'S', '{\"headers\": {\"a\": \"x\\u000ay\"}}'".into(),
            "header value must not contain a line break or NUL",
        ),
        (headers(65), "headers: 65 given; the limit is 64"),
        (
            "'t', 'S', json_object('headers', json_object('a', repeat('x', 32768)))".into(),
            "headers are 32769 bytes together; the limit is 32768",
        ),
        (
            "'t', 'S', json_object('headers', json_object(repeat('n', 129), 'x'))".into(),
            "header name has 129 characters; the limit is 128",
        ),
        (
            "'t', 'S', '{\"delay_seconds\": 315360001}'".into(),
            "delay_seconds is 315360001; it must be a number between 0 and 315360000",
        ),
        (
            "'t', 'S', '{\"delay_seconds\": -1}'".into(),
            "delay_seconds is -1; it must be a number between 0 and 315360000",
        ),
        (
            "'t', 'S', '{\"event_id\": \"0190a9c4\"}'".into(),
            "event_id must be a UUID, such as 0190a9c4-0000-7000-8000-000000000001",
        ),
    ];
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        place.store().await;
        let mut conn = place.conn().await;
        for (nth, session) in [
            "set sql_mode = 'TRADITIONAL,NO_BACKSLASH_ESCAPES'",
            "set sql_mode = 'NO_BACKSLASH_ESCAPES'",
        ]
        .into_iter()
        .enumerate()
        {
            conn.query_drop(session).await.unwrap();
            for arguments in at_the_limit
                .into_iter()
                .map(str::to_owned)
                .chain([headers(64).replace("'S'", "'1'")])
            {
                emit(&mut conn, &arguments).await;
            }
            for (arguments, expected) in &refused {
                let arguments = arguments.replace("'S'", "'\"S3CRET\"'");
                let call = format!("call sendoff_emit({arguments}, @id)");
                let Err(Error::Server(refusal)) = conn.query_drop(&call).await else {
                    panic!("{call} was not refused")
                };
                assert_eq!(refusal.message, *expected, "{call}");
                let said: Vec<(String, u16, String)> = conn.query("show warnings").await.unwrap();
                assert!(
                    said.iter()
                        .all(|(_, _, text)| !text.contains("S3CRET") && !text.contains("FF")),
                    "{said:?}"
                );
            }
            assert_eq!(place.rows().await, (nth as i64 + 1) * (at_the_limit.len() as i64 + 1));
        }
    }
}

/// Also where a key cannot tell, because the table is in partitions.
#[tokio::test]
async fn an_id_that_is_there_is_named() {
    for server in [MARIADB, MYSQL] {
        for layout in [Layout::Flat, Layout::Partitioned(Period::Day)] {
            let place = Place::on(server).await;
            place.store_with(MysqlOptions { layout, ..Default::default() }).await;
            let mut conn = place.conn().await;
            let options = "{\"event_id\": \"0190a9c4-0000-7000-8000-000000000001\"}";
            let call = format!("call sendoff_emit('t', '1', '{options}', @id)");
            conn.query_drop(&call).await.unwrap();
            let Err(Error::Server(refusal)) = conn.query_drop(&call).await else {
                panic!("{call}")
            };
            let said =
                "an event with the event_id 0190a9c4-0000-7000-8000-000000000001 is there already";
            assert_eq!((refusal.code, &*refusal.message), (1062, said));
            assert_eq!(place.rows().await, 1);
        }
    }
}

/// Where a table takes JSON only, bytes that are none are refused, and not shown.
#[tokio::test]
async fn a_table_of_json_takes_nothing_else() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        place.store_with(MysqlOptions { payloads: Payloads::Json, ..Default::default() }).await;
        let mut conn = place.conn().await;
        emit(&mut conn, "'t', '{}', null").await;
        for payload in ["x'22ff53334352455422'", "'S3CRET'"] {
            let call =
                format!("call sendoff_emit('t', {payload}, '{{\"content_type\": \"x/y\"}}', @id)");
            let Err(Error::Server(refusal)) = conn.query_drop(&call).await else {
                panic!("{call}")
            };
            assert!(!refusal.message.contains("S3CRET"), "{}", refusal.message);
            assert!(!refusal.message.contains("xFF"), "{}", refusal.message);
        }
        assert_eq!(place.rows().await, 1);
    }
}

/// Holds W3 for writers that are not ours; also from a connection that has another database in use.
#[tokio::test]
async fn an_emit_ends_with_its_transaction() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        place.store().await;
        let mut conn = place.conn().await;
        conn.query_drop("use mysql").await.unwrap();
        let call = format!("call {}.sendoff_emit('t', '1', null, @id)", place.database);
        for end in ["rollback", "commit"] {
            conn.query_drop("begin").await.unwrap();
            conn.query_drop(&call).await.unwrap();
            conn.query_drop(end).await.unwrap();
        }
        assert_eq!(place.rows().await, 1);
    }
}

/// An option is never left out without a word, however its name is written.
#[tokio::test]
async fn an_option_whose_name_is_escaped_is_taken_or_refused() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        conn.query_drop("set sql_mode = 'NO_BACKSLASH_ESCAPES'").await.unwrap();
        let call = r#"call sendoff_emit('t', '1', '{"tenant\u005fid": "acme"}', @id)"#;
        match conn.query_drop(call).await {
            Ok(()) => {
                let id: String = conn.query_first("select @id").await.unwrap().unwrap();
                let event = event(&store, id.parse().unwrap()).await;
                assert_eq!(event.tenant_id(), Some("acme"));
            }
            Err(error) => assert!(error.to_string().contains("without escapes"), "{error}"),
        }
    }
}
