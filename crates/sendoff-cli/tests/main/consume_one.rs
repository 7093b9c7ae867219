//! `sendoff consume-one`, as a shell sees it.

use std::process::Output;

use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::program::{report, run, stderr};

/// An outbox in a file.
struct Outbox {
    folder: TempDir,
}

impl Outbox {
    fn new() -> Self {
        let outbox = Self { folder: TempDir::new().unwrap() };
        let made = run(&["migrate", "--database-url", &outbox.url()]);
        assert!(made.status.success(), "{}", stderr(&made));
        outbox
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("shop.db").display())
    }

    fn sql(&self) -> Connection {
        Connection::open(self.folder.path().join("shop.db")).unwrap()
    }

    fn write(&self, id: u8, topic: &str, payload: &[u8]) {
        let insert = "insert into outbox_event (event_id, event_type, shard, occurred_at, due_at,
                                                created_at, headers, payload)
                      values (?1, ?2, 0, 1700000000000000, ?3, ?3, '{\"trace\":\"abc\"}', ?4)";
        let due = 1_700_000_000_000_000_i64 + i64::from(id);
        self.sql().execute(insert, ([id; 16], topic, due, payload)).unwrap();
    }

    /// Status, attempts and last error.
    fn row(&self, id: u8) -> (u8, u8, Option<String>) {
        let select = "select status, attempts, last_error from outbox_event where event_id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        self.sql().query_row(select, [[id; 16]], read).unwrap()
    }

    fn consume(&self, arguments: &[&str]) -> Output {
        let url = self.url();
        run(&[&["consume-one", "--database-url", &url], arguments].concat())
    }
}

/// Holds T2: the oldest due one, and no other, as one line of JSON.
#[test]
fn one_event_is_printed_and_is_processed() {
    let outbox = Outbox::new();
    outbox.write(1, "order.placed", br#"{"total": 990}"#);
    outbox.write(2, "order.placed", br#"{"total": 991}"#);
    let consumed = outbox.consume(&["--ack"]);
    assert_eq!(consumed.status.code(), Some(0), "{}", stderr(&consumed));
    let event = report(&consumed);
    assert_eq!(event["event_type"], "order.placed");
    assert_eq!(event["payload"], json!({ "total": 990 }));
    assert_eq!((&event["attempt"], &event["headers"]["trace"]), (&json!(1), &json!("abc")));
    assert_eq!(outbox.row(1).0, 1);
    assert_eq!(outbox.row(2), (0, 0, None));
    assert!(!stderr(&consumed).contains("990"), "no payload beside the data");
}

/// Holds T2: the exit code tells that there was none.
#[test]
fn nothing_due_has_an_exit_code_of_its_own() {
    let outbox = Outbox::new();
    let nothing = outbox.consume(&["--ack", "--json"]);
    assert_eq!(nothing.status.code(), Some(3), "{}", stderr(&nothing));
    assert_eq!(report(&nothing)["outcome"], "none");
}

/// Holds T1 and T2: the payload to the byte on standard input, the rest in the environment.
#[cfg(unix)]
#[test]
fn a_command_gets_the_bytes_and_decides() {
    let outbox = Outbox::new();
    outbox.write(1, "order.placed", b"{ \"b\":1.0,\n\"a\" : 2 }");
    let script = "printf '%s %s ' \"$SENDOFF_EVENT_TYPE\" \"$SENDOFF_ATTEMPT\"; cat; echo";
    let consumed = outbox.consume(&["--", "sh", "-c", script]);
    assert_eq!(consumed.status.code(), Some(0), "{}", stderr(&consumed));
    let said = String::from_utf8(consumed.stdout).unwrap();
    assert_eq!(said, "order.placed 1 { \"b\":1.0,\n\"a\" : 2 }\n");
    assert_eq!(outbox.row(1).0, 1);
}

/// Holds T1: back to pending with one more attempt, and in the end failed.
#[cfg(unix)]
#[test]
fn a_command_that_fails_costs_an_attempt() {
    let outbox = Outbox::new();
    outbox.write(1, "order.placed", b"{}");
    let failed = outbox.consume(&["--json", "--max-attempts", "2", "--", "sh", "-c", "exit 7"]);
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    assert_eq!(report(&failed)["outcome"], "pending");
    let (status, attempts, error) = outbox.row(1);
    assert_eq!((status, attempts), (2, 1));
    assert!(error.unwrap().contains("exit status: 7"));
    let none = outbox.consume(&["--", "true"]);
    assert_eq!(none.status.code(), Some(3), "it is due a minute later");
    outbox.sql().execute("update outbox_event set due_at = 1", []).unwrap();
    let dead = outbox.consume(&["--json", "--max-attempts", "2", "--", "false"]);
    assert_eq!((dead.status.code(), &report(&dead)["outcome"]), (Some(1), &json!("failed")));
    assert_eq!((outbox.row(1).0, outbox.row(1).1), (3, 2));
}

/// A mistake on the command line is not the event's fault.
#[test]
fn a_command_that_is_not_there_costs_no_attempt() {
    let outbox = Outbox::new();
    outbox.write(1, "order.placed", b"{}");
    let failed = outbox.consume(&["--", "no-such-command-anywhere"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(stderr(&failed).contains("no-such-command-anywhere"), "{}", stderr(&failed));
    assert_eq!(outbox.row(1).1, 0);
}

#[cfg(unix)]
#[test]
fn a_command_that_takes_too_long_is_killed() {
    let outbox = Outbox::new();
    outbox.write(1, "order.placed", b"{}");
    let failed = outbox.consume(&["--timeout", "1", "--", "sleep", "600"]);
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    assert!(outbox.row(1).2.unwrap().contains("did not finish within 1s"));
    let id = "01010101-0101-0101-0101-010101010101";
    let said = stderr(&failed);
    assert!(said.contains(id) && said.contains("did not finish within 1 s"), "{said}");
}

/// It looks like a way to have a look, and would take the event away.
#[test]
fn without_a_command_nothing_is_taken_unless_that_is_asked_for() {
    let outbox = Outbox::new();
    outbox.write(1, "order.placed", b"{}");
    let refused = outbox.consume(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--ack"), "{}", stderr(&refused));
    assert_eq!(outbox.row(1), (0, 0, None));
}

/// A missing database or table is an error that says what to do, never "nothing is due".
#[test]
fn a_wrong_database_is_an_error() {
    for (url, says) in [
        ("", "SENDOFF_DATABASE_URL"),
        ("mongodb://x", "MongoDB is not supported"),
        ("shop.db", "begins with"),
        ("postgres://nobody@127.0.0.1:1/none", "cannot be reached"),
    ] {
        let mut arguments = vec!["consume-one", "--ack"];
        if !url.is_empty() {
            arguments.extend(["--database-url", url]);
        }
        let failed = run(&arguments);
        assert_eq!(failed.status.code(), Some(2), "{url}");
        assert!(stderr(&failed).contains(says), "{}", stderr(&failed));
    }
}
