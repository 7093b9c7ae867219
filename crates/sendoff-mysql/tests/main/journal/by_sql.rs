//! `journal_append` from any language.

use futures_util::TryStreamExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
use sendoff_core::journal::{Item, Locks, Mode, Position, Query, Recorded};
use sendoff_testkit::journal::by_sql::{appends, one_registers, registered_as, tags, unless};
use tokio::sync::Mutex;

use super::{Log, committed, journal, tag};
use crate::place::{MARIADB, MYSQL, Place};

/// Rows of `journal_anchor`.
const ANCHORS: u16 = 4_096;

async fn facts(journal: &Log) -> Vec<Recorded> {
    journal.read(Query::all(), Position::START).try_collect().await.unwrap()
}

async fn append(conn: &mut Conn, arguments: &str) -> Result<i64, mysql_async::ServerError> {
    match conn.query_drop(format!("call journal_append({arguments}, @place)")).await {
        Ok(()) => Ok(conn.query_first("select @place").await.unwrap().unwrap()),
        Err(Error::Server(refusal)) => Err(refusal),
        Err(error) => panic!("{error:?}"),
    }
}

/// What `journal_append` asks for, of a fact and a condition.
fn wanted(event_type: &str, tags: &[&str], query: Option<&Query>) -> String {
    let mut wanted = vec![(format!(":{event_type}"), false)];
    wanted.extend(tags.iter().map(|tag| (format!("={tag}"), false)));
    if let Some(query) = query {
        if query.items().is_empty() {
            wanted.push((String::new(), true));
        }
        for item in query.items() {
            match item.tags().next() {
                Some(tag) => wanted.push((format!("={tag}"), true)),
                None if item.types().len() == 0 => wanted.push((String::new(), true)),
                None => wanted.extend(item.types().map(|name| (format!(":{name}"), true))),
            }
        }
    }
    let wanted: Vec<_> =
        wanted.iter().map(|(name, alone)| serde_json::json!([name, u8::from(*alone)])).collect();
    serde_json::json!(wanted).to_string()
}

/// Holds J1 for writers that are not ours: whoever excludes one another has a lock in common.
async fn the_locks_are_those_of_the_library(server: &str) {
    let place = Place::on(server).await;
    journal(&place).await;
    let mut conn = place.conn().await;
    for append in appends() {
        let fact = &append.facts()[0];
        let query = append.condition().map(|condition| &condition.query);
        let names: Vec<_> = fact.tags().iter().map(|tag| tag.as_str()).collect();
        conn.exec_drop(
            "call journal_keys(?, @slots)",
            (wanted(fact.event().event_type(), &names, query),),
        )
        .await
        .unwrap();
        let found: String = conn.query_first("select @slots").await.unwrap().unwrap();
        let locks = Locks::of_append(append.facts(), query).slots(ANCHORS);
        let expected: Vec<_> = locks
            .iter()
            .map(|slot| format!("[{},{}]", slot.number, u8::from(slot.mode == Mode::Exclusive)))
            .collect();
        assert_eq!(found, format!("[{}]", expected.join(",")), "{append:?}");
        // And the tags are kept as the library keeps them.
        conn.exec_drop("call journal_tags(?, @sorted, @many)", (tags(fact),)).await.unwrap();
        let sorted: String = conn.query_first("select @sorted").await.unwrap().unwrap();
        assert_eq!(sorted, tags(fact));
    }
}

/// Holds J1.
async fn one_of_two_registers(server: &str) {
    let place = Place::on(server).await;
    let journal = journal(&place).await;
    let conn = Mutex::new(committed(&place).await);
    one_registers(&journal, async |name| {
        let mut conn = conn.lock().await;
        let wanted = registered_as(name);
        let query = Query::of(Item::any().of_type("name.registered").tagged(tag(&wanted)));
        let options = format!("{{\"unless\": {}}}", unless(&query));
        let tags = format!("[\"{wanted}\"]");
        conn.query_drop("begin").await.unwrap();
        let call = "call journal_append('name.registered', '{}', ?, ?, @place)";
        let appended = conn.exec_drop(call, (tags, options)).await;
        conn.query_drop("commit").await.unwrap();
        match appended {
            Ok(()) => true,
            Err(Error::Server(refusal)) if refusal.state == "23000" => false,
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn the_locks_are_those_of_the_library_on_mariadb() {
    the_locks_are_those_of_the_library(MARIADB).await;
}

#[tokio::test]
async fn the_locks_are_those_of_the_library_on_mysql() {
    the_locks_are_those_of_the_library(MYSQL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_register_a_name_one_by_sql_exactly_one_does() {
    one_of_two_registers(MARIADB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_register_a_name_one_by_sql_exactly_one_does_on_mysql() {
    one_of_two_registers(MYSQL).await;
}

#[tokio::test]
async fn a_fact_by_sql_is_read_as_it_was_given() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut conn = committed(&place).await;
        conn.query_drop("begin").await.unwrap();
        let call = "'wallet.opened', '{\"b\":  \"Zoë\"}', '[\"z=2\", \"a=1\", \"z=2\"]',
            '{\"headers\": {\"source\": \"shop\"}, \"event_id\": \"0190a9c4-0000-7000-8000-000000000001\",
              \"correlation_id\": \"0190a9c4-0000-7000-8000-000000000002\",
              \"causation_id\": \"0190a9c4-0000-7000-8000-000000000003\"}'";
        let first = append(&mut conn, call).await.unwrap();
        assert_eq!(append(&mut conn, call).await.unwrap(), first, "it was there already");
        append(&mut conn, "'t', x'00ff', null, '{\"content_type\": \"x/y\"}'").await.unwrap();
        conn.query_drop("commit").await.unwrap();
        let facts = facts(&journal).await;
        assert_eq!(facts.len(), 2);
        assert_eq!(&facts[0].event().payload()[..], "{\"b\":  \"Zoë\"}".as_bytes());
        assert_eq!(&facts[1].event().payload()[..], b"\x00\xff");
        let tags: Vec<_> = facts[0].tags().iter().map(|tag| tag.as_str()).collect();
        assert_eq!(tags, ["a=1", "z=2"]);
        assert_eq!(facts[0].event().headers().get("source"), Some("shop"));
        assert!(facts[0].fact.correlation_id().is_some() && facts[0].fact.causation_id().is_some());
    }
}

/// Holds E2 for writers that are not ours.
#[tokio::test]
async fn what_cannot_be_appended_is_refused() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut conn = committed(&place).await;
        let open = append(&mut conn, "'t', '1', null, null").await.unwrap_err();
        assert_eq!(open.message, "no transaction is open: begin one first");
        conn.query_drop("begin").await.unwrap();
        let many = (0..65).map(|n| format!("\"k={n}\"")).collect::<Vec<_>>().join(",");
        for (call, expected) in [
            ("null, '1', null, null".to_owned(), "event_type must not be empty"),
            (
                "'t', 'S3CRET', null, null".into(),
                "payload is not valid JSON in UTF-8, or nested deeper than this server reads: 6 bytes",
            ),
            (
                "'t', '1', '[\"a\"]', null".into(),
                "a tag is written key=value; neither may be empty",
            ),
            ("'t', '1', '[\"\"]', null".into(), "a tag is written key=value; neither may be empty"),
            ("'t', '1', '[1]', null".into(), "tags must be a JSON array of strings"),
            ("'t', '1', '{}', null".into(), "tags must be a JSON array of strings"),
            (format!("'t', '1', '[{many}]', null"), "tags: 65 given; the limit is 64"),
            (
                "'t', '1', json_array(concat(repeat('k', 65), '=v')), null".into(),
                "tag key has 65 characters; the limit is 64",
            ),
            (
                "'t', '1', null, '{\"after\": -1}'".into(),
                "after is -1; it must be a position, 0 or more",
            ),
            ("'t', '1', null, '{\"event_id\": \"7\"}'".into(), "event_id must be a UUID"),
            (
                "'t', '1', null, '{\"unless\": [{\"tag\": []}]}'".into(),
                "an item of unless has \"types\" and \"tags\", which are arrays of strings",
            ),
        ] {
            let refusal = append(&mut conn, &call).await.expect_err(&call);
            assert_eq!(refusal.message, expected, "{call}");
        }
        conn.query_drop("commit").await.unwrap();
        assert!(facts(&journal).await.is_empty());

        conn.query_drop("begin").await.unwrap();
        append(&mut conn, "'t', '1', '[\"a=1\", \"b=2\"]', null").await.unwrap();
        for item in [
            "{\"tags\": [\"a=1\"]}",
            "{\"tags\": [\"b=2\", \"a=1\"], \"types\": [\"x\", \"t\"]}",
            "{\"types\": [\"x\", \"t\"]}",
            "{}",
        ] {
            let call =
                format!("'t', '1', null, '{{\"unless\": [{{\"types\": [\"y\"]}}, {item}]}}'");
            let refusal = append(&mut conn, &call).await.expect_err(&call);
            assert_eq!(refusal.state, "23000");
            assert_eq!(
                refusal.message,
                "the condition does not hold: there is such a fact at position 1"
            );
        }
        for item in [
            "{\"tags\": [\"A=1\"]}",
            "{\"tags\": [\"a=1\"], \"types\": [\"T\"]}",
            "{\"types\": [\"T\"]}",
        ] {
            let call = format!("'other', '1', null, '{{\"unless\": {item}}}'");
            append(&mut conn, &call).await.unwrap();
        }
        conn.query_drop("commit; set session transaction isolation level repeatable read; begin")
            .await
            .unwrap();
        let refusal = append(&mut conn, "'t', '1', null, '{\"unless\": []}'").await.unwrap_err();
        assert_eq!(refusal.message, "a condition needs a session at READ COMMITTED");
        append(&mut conn, "'t', '1', null, null").await.unwrap();
        conn.query_drop("commit; set session auto_increment_increment = 2; begin").await.unwrap();
        let refusal = append(&mut conn, "'t', '1', null, null").await.unwrap_err();
        assert!(refusal.message.starts_with("auto_increment_increment is not 1"), "{refusal}");
    }
}
