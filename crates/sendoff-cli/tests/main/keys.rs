//! `sendoff keys`, on real databases.

use std::process::Output;

use serde_json::{Value, json};

use crate::postgres::Place;
use crate::program::{report, run, stderr};

/// How a database writes what the story needs.
pub(crate) struct Dialect {
    pub(crate) id: fn(u8) -> String,
    pub(crate) now: &'static str,
    /// When what is dead is due: at no time where the table says so.
    pub(crate) dead_due: &'static str,
    pub(crate) in_line: &'static str,
    pub(crate) payload: &'static str,
}

/// A key that is parked behind its dead event 1, and two events of it that wait, in plain SQL.
pub(crate) fn parked(Dialect { id, now, dead_due, in_line, payload }: &Dialect) -> [String; 2] {
    let row = |n: u8, event_type: &str, ends: &str| {
        let id = id(n);
        format!("({id}, '{event_type}', 0, 'order:7', {now}, {now}, {ends}, {payload})")
    };
    let dead = format!("{dead_due}, 3, {now}, 10, 'no such stock'");
    let waits = format!("{in_line}, 0, null, 0, null");
    let rows = [
        row(1, "order.placed", &dead),
        row(2, "order.paid", &waits),
        row(3, "order.shipped", &waits),
    ];
    let (rows, first) = (rows.join(", "), id(1));
    [
        format!(
            "insert into outbox_event (event_id, event_type, shard, ordering_key, occurred_at, created_at,
                                       due_at, status, done_at, attempts, last_error, payload)
             values {rows}"
        ),
        format!(
            "insert into outbox_key (ordering_key, due_at, since, parked_by)
             values ('order:7', {now}, {now}, {first})"
        ),
    ]
}

const LITE: Dialect = Dialect {
    id: |n| format!("x'{}'", format!("{n:02x}").repeat(16)),
    now: "unixepoch() * 1000000",
    dead_due: "0",
    in_line: "253339228800000000",
    payload: "x'7b7d'",
};

fn uuid(n: u8) -> String {
    let digits = format!("{n:02x}").repeat(16);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What is done one after the other, on whatever database, once `make` has parked a key.
pub(crate) fn story(run: impl Fn(&[&str]) -> Output, make: impl Fn()) {
    let because = ["--reason", "mended by hand", "--actor", "ann"];
    let nothing = run(&["keys", "list"]);
    assert_eq!((nothing.status.code(), stderr(&nothing).trim()), (Some(3), "no key is parked"));
    make();

    let listed = run(&["keys", "list"]);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let text = said(&listed);
    assert!(text.starts_with("order:7: 2 events wait; parked since 2"), "{text}");
    assert!(text.trim().ends_with("(order.placed, 10 attempts): no such stock"), "{text}");
    let line = report(&run(&["keys", "list", "--json"]));
    assert_eq!((&line["key"], &line["state"]), (&json!("order:7"), &json!("parked")));
    assert_eq!((&line["parked_by"], &line["events"]), (&json!(uuid(1)), &json!(2)));
    assert_eq!((&line["first_event_id"], &line["until"]), (&json!(uuid(2)), &Value::Null));
    let count = report(&run(&["keys", "list", "--count", "--json"]));
    assert_eq!(count, json!({ "keys": 1, "exact": true }));
    assert_eq!(report(&run(&["keys", "show", "order:7", "--json"]))["parked_by"], uuid(1));
    let text = said(&run(&["keys", "show", "order:7"]));
    assert!(text.contains("order:7 is parked since 2"), "{text}");
    assert!(text.contains(&format!("the first is {} (order.paid)", uuid(2))), "{text}");
    assert!(text.contains(&format!("sendoff keys resume order:7 --event {}", uuid(1))), "{text}");
    let idle = run(&["keys", "show", "order:8", "--json"]);
    assert_eq!((idle.status.code(), &report(&idle)["state"]), (Some(3), &json!("idle")));

    let found = run(&["doctor", "--json"]);
    assert_eq!(found.status.code(), Some(1), "{}", stderr(&found));
    let found = report(&found);
    let parked = |finding: &&Value| finding["code"] == "parked-keys";
    let finding = found["findings"].as_array().unwrap().iter().find(parked).unwrap();
    let remedy = finding["text"].as_str().unwrap();
    assert!(remedy.starts_with("1 key is parked, as order:7, where 2 events wait"), "{remedy}");
    assert!(remedy.contains("sendoff keys resume"), "{remedy}");
    assert_eq!(found["outbox"]["parked_keys"], json!({ "count": 1, "exact": true }));
    assert_eq!(found["outbox"]["oldest"]["key_state"], "parked");

    // What is in line is due at no time.
    let peeked = run(&["peek"]);
    let peeked: Vec<Value> =
        said(&peeked).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(peeked.len(), 2);
    for line in &peeked {
        assert_eq!((&line["due_at"], &line["in_line"]), (&Value::Null, &json!(true)), "{line}");
        assert_eq!(line["ordering_key"], "order:7");
    }
    let shown = report(&run(&["events", "show", &uuid(2), "--json"]));
    assert_eq!(shown["event"]["due_at"], Value::Null, "{shown}");

    let resume = |more: &[&str]| run(&[&["keys", "resume", "order:7"], more, &because].concat());
    let other = resume(&["--event", &uuid(2), "--json"]);
    assert_eq!(other.status.code(), Some(1), "{}", stderr(&other));
    let fate = json!({ "key": "order:7", "fate": "parked_by_another", "event_id": uuid(1) });
    assert_eq!(report(&other), fate);
    let done = resume(&["--event", &uuid(1)]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(said(&done).starts_with("order:7 goes on; the dead event "), "{}", said(&done));
    let again = resume(&["--json"]);
    assert_eq!((again.status.code(), &report(&again)["fate"]), (Some(3), &json!("not_parked")));
    assert_eq!(run(&["keys", "list"]).status.code(), Some(3));
    assert!(said(&run(&["keys", "show", "order:7"])).contains("order:7 is in line"));
    assert_eq!(report(&run(&["events", "list", "--json"]))["event_id"], uuid(1), "it stays dead");
    let audit = said(&run(&["events", "audit"]));
    let entry = format!("ann: resume key:order:7 without {}: mended by hand", uuid(1));
    assert!(audit.contains(&entry), "{audit}");
}

#[test]
fn a_parked_key_is_shown_explained_and_let_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    assert!(run(&["migrate", "--database-url", &url]).status.success());
    story(
        |arguments| run(&[arguments, &["--database-url", &url]].concat()),
        || {
            let conn = rusqlite::Connection::open(&file).unwrap();
            parked(&LITE).iter().for_each(|sql| assert!(conn.execute(sql, []).unwrap() > 0));
        },
    );

    let Some(place) = Place::new() else { return };
    assert!(place.run(&["migrate"]).status.success());
    let postgres = Dialect {
        id: |n| format!("'{}'", uuid(n)),
        now: "now()",
        dead_due: "now()",
        in_line: "'9998-01-01 00:00:00Z'",
        payload: "'{}'",
    };
    let schema = &place.schema;
    let make = || {
        let [events, entry] = parked(&postgres);
        place.sql(&format!("set search_path = {schema}; {events}; {entry}"));
    };
    story(|arguments| place.run(arguments), make);
}

/// What the guide tells people to type, one line after the other.
#[test]
fn the_page_about_dead_letters_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    assert!(run(&["migrate", "--database-url", &url]).status.success());
    let conn = rusqlite::Connection::open(&file).unwrap();
    parked(&LITE).iter().for_each(|sql| assert!(conn.execute(sql, []).unwrap() > 0));
    let mails = "insert into outbox_event (event_id, event_type, tenant_id, shard, occurred_at, due_at, created_at,
                                           status, done_at, attempts, last_error, payload)
                 values (randomblob(16), 'mail.wanted', null, 0, 0, 0, 0, 3, 1, 10, 'mailbox unavailable', x'7b7d'),
                        (randomblob(16), 'bill.wanted', 'acme', 0, 0, 0, 0, 3, 1, 10, 'gone', x'7b7d')";
    assert_eq!(conn.execute(mails, []).unwrap(), 2);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_sendoff"));
    let found = std::env::var("PATH").unwrap();
    let found = format!("{}:{found}", program.parent().unwrap().display());
    for block in sendoff_testkit::guide::blocks("dead-letters.md", "sh") {
        for line in block.lines() {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", line]).env("PATH", &found).env("SENDOFF_ACTOR", "ada");
            let output = shell.env("SENDOFF_DATABASE_URL", &url).output().unwrap();
            assert!(output.status.success(), "{line}: {} {}", output.status, stderr(&output));
        }
    }
    let left: i64 = conn
        .query_row("select count(*) from outbox_event where status = 3", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1, "the one whose key went on");
}

#[test]
fn keys_that_can_be_none_and_resumptions_without_a_reason_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    assert!(run(&["migrate", "--database-url", &url]).status.success());
    let said = |arguments: &[&str]| {
        let output = run(&[arguments, &["--database-url", &url]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        stderr(&output)
    };
    assert!(said(&["keys", "resume", "a"]).contains("why? Give --reason"));
    assert!(said(&["keys", "show", ""]).contains("ordering_key must not be empty"));
    assert!(said(&["keys", "show", &"x".repeat(129)]).contains("129 characters"));
    assert!(said(&["keys", "resume", "a", "--event", "7", "--reason", "r"]).contains("--event"));
}
