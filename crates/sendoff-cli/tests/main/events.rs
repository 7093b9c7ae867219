//! `sendoff events`, run as a process.

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::postgres::Place;
use crate::program::{Running, number, report, run, sendoff, stderr, until};

/// A file with an outbox, and dead letters in it.
struct File {
    _folder: TempDir,
    path: PathBuf,
    url: String,
}

const WHY: &str = "the mail server is back";

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let url = format!("sqlite:{}", path.display());
        assert!(run(&["migrate", "--database-url", &url]).status.success());
        Self { _folder: folder, path, url }
    }

    /// So many of this type and status, whose ids begin with a byte of their own.
    fn add(&self, first: u8, event_type: &str, status: u8, rows: u32) {
        let sql = format!(
            "with recursive n(n) as (select 1 union all select n + 1 from n where n < {rows})
             insert into outbox_event (event_id, event_type, shard, status, occurred_at, due_at,
                                       created_at, done_at, attempts, last_error, payload)
             select unhex(printf('{first:02x}%030x', n)), '{event_type}', 0, {status}, 0, 0, 0,
                    case {status} when 3 then 1000 + n end, 10, '550 no
                    such ' || n, '{{\"n\":' || n || '}}'
               from n"
        );
        let conn = self.conn();
        // Its payload is bytes.
        conn.execute_batch(&sql.replace("'{\"n\"", "cast('{\"n\"").replace("'}'", "'}' as blob)"))
            .unwrap();
    }

    fn conn(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }

    fn count(&self, status: u8) -> u64 {
        let query = "select count(*) from outbox_event where status = ?1";
        self.conn().query_row(query, [status], |row| row.get(0)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = sendoff(&[&["events"][..], arguments].concat());
        command.env("SENDOFF_DATABASE_URL", &self.url).env("USER", "ada");
        command
    }

    fn events(&self, arguments: &[&str]) -> Output {
        Running::start(self.command(arguments)).ended()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    said(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn id(first: u8, n: u32) -> String {
    let digits = format!("{first:02x}{n:030x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[test]
fn dead_letters_are_listed_counted_and_shown() {
    let file = File::new();
    file.add(1, "mail.wanted", 3, 700);
    file.add(2, "order.placed", 3, 2);
    file.add(3, "order.placed", 0, 5);
    let all = file.events(&["list", "--json", "--limit", "1000"]);
    assert!(all.status.success(), "{}", stderr(&all));
    assert_eq!(lines(&all).len(), 702, "page by page");
    let one =
        file.events(&["list", "--type", "order.placed", "--newest", "--limit", "1", "--json"]);
    let line = &lines(&one)[0];
    assert_eq!((&line["event_id"], &line["attempts"]), (&id(2, 2).into(), &10.into()));
    assert_eq!(line["died_at"], "1970-01-01T00:00:00.001002Z");
    let text = file.events(&[
        "list",
        "--error",
        "such 2",
        "--max-attempts",
        "10",
        "--type",
        "order.placed",
    ]);
    assert_eq!(said(&text).lines().count(), 1, "one line for each letter: {}", said(&text));
    assert!(said(&text).contains("after 10 attempts: 550 no"), "{}", said(&text));
    let count = report(&file.events(&["list", "--count", "--json"]));
    assert_eq!((number(&count, "letters"), &count["exact"]), (702, &true.into()));
    let none = file.events(&["list", "--type", "order.%"]);
    assert_eq!((none.status.code(), said(&none).as_str()), (Some(3), ""));

    let shown = report(&file.events(&["show", &id(2, 1), "--json"]));
    assert_eq!(
        (&shown["event"]["status"], &shown["event"]["payload_bytes"]),
        (&"DEAD".into(), &7.into())
    );
    assert!(shown["event"].get("payload").is_none() && shown["audit"] == Value::Array(vec![]));
    let shown = report(&file.events(&["show", &id(2, 1), "--json", "--payload"]));
    assert_eq!(shown["event"]["payload"]["n"], 1);
    let text = said(&file.events(&["show", &id(3, 1)]));
    assert!(text.contains("status            NEW"), "{text}");
    assert_eq!(file.events(&["show", &id(9, 9)]).status.code(), Some(3));
}

#[test]
fn letters_are_requeued_and_discarded_by_their_ids_and_each_says_what_became_of_it() {
    let file = File::new();
    file.add(1, "mail.wanted", 3, 3);
    file.add(2, "mail.wanted", 0, 1);
    let mixed = file.events(&["requeue", &id(1, 1), &id(2, 1), &id(9, 9), "--json"]);
    assert_eq!(mixed.status.code(), Some(1), "{}", stderr(&mixed));
    let fates: Vec<_> = lines(&mixed).iter().map(|line| line["fate"].clone()).collect();
    assert_eq!(fates, ["requeued", "not_dead", "not_found"]);
    assert_eq!(lines(&mixed)[1]["status"], "NEW");
    assert_eq!(file.count(0), 2);

    let discard = ["discard", &id(1, 2), "--reason", "sent by hand", "--actor", "bob"];
    let done = file.events(&discard);
    assert!(done.status.success() && said(&done).contains("discarded"), "{}", stderr(&done));
    let again = file.events(&discard);
    assert_eq!(again.status.code(), Some(3));
    assert!(said(&again).contains("is not there"));
    let text = said(&file.events(&["show", &id(1, 2)]));
    assert!(text.contains("not there any more") && text.contains("bob: discard"), "{text}");

    let audit = lines(&file.events(&["audit", "--json"]));
    let acts: Vec<_> =
        audit.iter().map(|entry| (entry["actor"].clone(), entry["action"].clone())).collect();
    assert_eq!(acts, [("bob".into(), "discard".into()), ("ada".into(), "requeue".into())]);
    assert_eq!(audit[0]["reason"], "sent by hand");
    let of_one = lines(&file.events(&["audit", "--json", "--event", &id(1, 1)]));
    assert_eq!((of_one.len(), &of_one[0]["attempts"]), (1, &10.into()));
    assert_eq!(file.events(&["audit", "--event", &id(1, 3)]).status.code(), Some(3));
}

#[test]
fn a_sweep_says_first_what_it_will_do_and_then_what_it_did() {
    let file = File::new();
    file.add(1, "mail.wanted", 3, 1_200);
    file.add(2, "order.placed", 3, 3);
    let chosen = ["--type", "mail.wanted", "--json"];
    let dry = file.events(&[&["requeue", "--dry-run"][..], &chosen].concat());
    let foretold = report(&dry);
    assert_eq!((number(&foretold, "letters"), &foretold["dry_run"]), (1_200, &true.into()));
    assert_eq!(file.count(3), 1_203, "nothing was done");

    let done =
        file.events(&[&["requeue", "--reason", WHY, "--limit", "1000"][..], &chosen].concat());
    assert_eq!(done.status.code(), Some(1), "more are left: {}", stderr(&done));
    assert!(stderr(&done).contains("1200 dead letters to be requeued"), "{}", stderr(&done));
    let summary = report(&done);
    assert_eq!((number(&summary, "done"), &summary["finished"]), (1_000, &false.into()));
    let rest = file.events(&[&["requeue", "--reason", WHY][..], &chosen].concat());
    assert!(rest.status.success(), "{}", stderr(&rest));
    assert_eq!((number(&report(&rest), "done"), file.count(0), file.count(3)), (200, 1_200, 3));
    let none = file.events(&[&["requeue", "--reason", WHY][..], &chosen].concat());
    assert_eq!(none.status.code(), Some(3));

    let unsure = file.events(&["discard", "--all", "--reason", "too old"]);
    assert_eq!((unsure.status.code(), file.count(3)), (Some(2), 3));
    assert!(
        stderr(&unsure).contains("3 dead letters would be discarded: give --yes"),
        "{}",
        stderr(&unsure)
    );
    let sure = file.events(&["discard", "--all", "--reason", "too old", "--yes"]);
    assert!(sure.status.success(), "{}", stderr(&sure));
    assert!(said(&sure).starts_with("3 dead letters discarded"), "{}", said(&sure));
    assert_eq!((file.count(3), file.count(0)), (0, 1_200));
}

#[test]
fn a_sweep_that_is_told_to_end_says_how_far_it_came() {
    let file = File::new();
    file.add(1, "mail.wanted", 3, 1_000);
    let slow = ["requeue", "--all", "--reason", WHY, "--per-second", "5", "--json"];
    let running = Running::start(file.command(&slow));
    until("the first batch", || file.count(0) > 0);
    running.signal("INT");
    let ended = running.ended();
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    let summary = report(&ended);
    assert_eq!(number(&summary, "done"), file.count(0));
    assert!(number(&summary, "done") < 1_000 && summary["finished"] == false, "{summary}");
}

#[test]
fn what_is_not_said_clearly_is_refused() {
    let file = File::new();
    file.add(1, "mail.wanted", 3, 2);
    let long = "x".repeat(501);
    for (arguments, part) in [
        (&["requeue"][..], "which letters?"),
        (&["discard", "--yes", "--reason", "r"], "which letters?"),
        (&["requeue", &id(1, 1), "--all"], "one of the three"),
        (&["requeue", "--all", "--type", "t", "--reason", "r"], "one of the three"),
        (&["requeue", "--all"], "--reason"),
        (&["discard", &id(1, 1)], "--reason"),
        (&["discard", &id(1, 1), "--reason", " "], "reason must not be empty"),
        (&["discard", &id(1, 1), "--reason", &long], "reason has 501 characters; the limit is 500"),
        (
            &["requeue", "--min-attempts", "3", "--max-attempts", "2", "--reason", "r"],
            "attempts_least",
        ),
        (&["requeue", "--all", "--reason", "r", "--per-second", "0"], "per_second"),
        (&["requeue", "no-id"], "no-id"),
        (&["list", "--died-from", "yesterday"], "2026-01-31T08:00:00Z"),
    ] {
        let refused = file.events(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(part), "{arguments:?}: {}", stderr(&refused));
    }
    let mut nobody = file.command(&["requeue", &id(1, 1)]);
    nobody.env_remove("USER").env_remove("LOGNAME");
    let refused = Running::start(nobody).ended();
    assert!(stderr(&refused).contains("SENDOFF_ACTOR"), "{}", stderr(&refused));
    assert_eq!(file.count(3), 2, "nothing was done");
}

#[test]
fn the_same_on_a_server() {
    let Some(place) = Place::new() else { return };
    assert!(place.run(&["migrate"]).status.success());
    place.sql(
        "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                   due_at, status, done_at, attempts, last_error)
         select gen_random_uuid(), 0, 't', '{}', now(), now(), now(), 3, now(), 10, 'no'
           from generate_series(1, 700)",
    );
    seven_hundred_are_requeued(|asked| place.run(asked), |sql| place.number(sql));
}

/// On a server with so many dead letters.
pub(crate) fn seven_hundred_are_requeued(
    run: impl Fn(&[&str]) -> Output,
    number_of: impl Fn(&str) -> i64,
) {
    let events = |arguments: &[&str]| run(&[&["events"][..], arguments].concat());
    assert_eq!(lines(&events(&["list", "--json", "--limit", "9999"])).len(), 700);
    let requeue = ["requeue", "--all", "--reason", WHY, "--actor", "ada", "--json"];
    let done = events(&requeue);
    assert_eq!(number(&report(&done), "done"), 700, "{}", stderr(&done));
    let pending = "select count(*) from outbox_event where status = 0 and attempts = 0";
    assert_eq!(number_of(pending), 700);
    assert_eq!(number_of("select count(*) from outbox_audit where actor = 'ada'"), 700);
    assert_eq!(events(&requeue).status.code(), Some(3));
}

/// Fault 36: what operators ask for shows no payload that they did not ask for, and never a password.
#[test]
fn no_payload_is_shown_unasked_and_no_password_ever() {
    const PAYLOAD: &str = "sing-no-song";
    const PASSWORD: &str = "s3same-open";
    let Some(place) = Place::new() else { return };
    assert!(place.run(&["migrate"]).status.success());
    assert!(place.run(&["journal", "migrate"]).status.success());
    let (dead, late) = (id(1, 1), id(1, 2));
    place.sql(&format!(
        "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                   due_at, status, done_at, attempts, last_error)
         values ('{dead}', 0, 't', '{PAYLOAD}', now(), now(), now(), 3, now(), 10, 'no'),
                ('{late}', 0, 't', '{PAYLOAD}', now(), now() - interval '1 hour', now(), 0, null, 0, null)"
    ));
    let url = place.url.replacen("postgres@", &format!("postgres:{PASSWORD}@"), 1);
    assert_ne!(url, place.url);
    let shown = |arguments: &[&str]| {
        let output = Running::start(place.sendoff_at(&url, arguments)).ended();
        let shown = said(&output) + &stderr(&output);
        assert!(shown.len() > 10 && !shown.contains(PASSWORD), "{arguments:?}: {shown}");
        shown
    };
    let who = ["--reason", "r", "--actor", "a"];
    let requeue = [&["events", "requeue", &dead], &who[..]].concat();
    let (show, pause) = (["events", "show", &dead], [&["pause", "--type", "t"], &who[..]].concat());
    for asked in [
        &["events", "list"][..],
        &show,
        &["peek"],
        &pause,
        &["doctor"],
        &requeue,
        &["events", "audit"],
    ] {
        for asked in [asked.to_vec(), [asked, &["--json"]].concat()] {
            // One of them prints JSON only, and says so.
            let shown = shown(&asked);
            assert!(!shown.contains(PAYLOAD), "{asked:?}: {shown}");
        }
    }
    assert!(shown(&["events", "show", &late, "--payload"]).contains(PAYLOAD));
    place.sql("alter table outbox_event drop column tenant_id cascade");
    for asked in [&["doctor"][..], &["events", "list"], &["peek"]] {
        assert!(!shown(asked).contains(PAYLOAD), "{asked:?}");
    }
}
