//! `sendoff doctor`, on real databases.

use std::process::Output;

use sendoff::EventId;
use serde_json::Value;

use crate::journal::{fact, journal};
use crate::postgres::Place;
use crate::program::{Running, report, run, stderr};

pub(crate) fn findings<'r>(report: &'r Value, code: &str) -> Vec<&'r str> {
    let all = report["findings"].as_array().unwrap();
    let found = all.iter().filter(|finding| finding["code"] == code);
    found.map(|finding| finding["text"].as_str().unwrap()).collect()
}

/// Rolls a prepared transaction back, also where the test fails: its locks would outlive it.
struct Undo<'t> {
    place: &'t Place,
    gid: &'t str,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        self.place.sql(&format!("rollback prepared '{}'", self.gid));
    }
}

#[test]
fn a_journal_that_is_well_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    assert!(run(&["journal", "migrate", "--database-url", &url]).status.success());
    let well = run(&["doctor", "--database-url", &url]);
    assert_eq!(well.status.code(), Some(0), "{}", stderr(&well));
    let text = String::from_utf8(well.stdout).unwrap();
    assert!(text.contains("ends at position 0") && text.ends_with("nothing is wrong\n"), "{text}");

    let Some(place) = Place::new() else { return };
    let _journal = journal(&place);
    let well = place.run(&["doctor"]);
    assert_eq!(well.status.code(), Some(0), "{}", stderr(&well));
    assert!(String::from_utf8(well.stdout).unwrap().contains("on a primary"));
}

/// An outbox that has dead letters, events that nobody takes and something paused is not well, whatever the
/// journal is. `write` makes one of each of the first two.
pub(crate) fn an_ill_outbox_is_said_to_be(run: impl Fn(&[&str]) -> Output, write: impl FnOnce()) {
    assert!(run(&["migrate"]).status.success());
    let well = run(&["doctor"]);
    assert_eq!(well.status.code(), Some(0), "{}", stderr(&well));
    let text = String::from_utf8(well.stdout).unwrap();
    // The server may be one that forgets.
    assert!(text.contains("0 dead letters") && !text.contains("\nwrong: "), "{text}");
    assert_eq!(run(&["peek"]).status.code(), Some(3));

    write();
    let pause = ["pause", "--type", "bill.sent", "--reason", "prices are wrong", "--actor", "ada"];
    assert!(run(&pause).status.success());
    let ill = run(&["doctor", "--json"]);
    assert_eq!(ill.status.code(), Some(1), "{}", stderr(&ill));
    let report = report(&ill);
    let dead = findings(&report, "dead");
    assert!(dead[0].contains("mail.wanted: no such mailbox"), "{dead:?}");
    assert!(dead[0].contains("sendoff events requeue"), "{dead:?}");
    let late = findings(&report, "late");
    assert!(late[0].contains("order.placed") && late[0].contains("nobody takes it"), "{late:?}");
    assert_eq!(report["outbox"]["oldest"]["event_type"], "order.placed");
    let paused = findings(&report, "outbox-paused");
    assert!(
        paused[0].contains("bill.sent") && paused[0].contains("prices are wrong"),
        "{paused:?}"
    );
    assert!(paused[0].contains("sendoff resume"), "{paused:?}");

    let next = run(&["peek"]);
    assert_eq!(next.status.code(), Some(0), "{}", stderr(&next));
    let line: Value = serde_json::from_slice(&next.stdout).unwrap();
    assert_eq!((&line["event_type"], &line["status"]), (&"order.placed".into(), &"NEW".into()));
    assert_eq!(line.get("payload"), None, "only where it is asked for");
    let again = run(&["peek", "--payload"]);
    let line: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(line["payload_bytes"], 2, "it is still there: {line}");
}

/// A dead letter and an event that has been due for long, in plain SQL.
pub(crate) fn ill(id: &str, long_ago: &str, payload: &str, dead_is_due: bool) -> String {
    let due = if dead_is_due { long_ago } else { "null" };
    format!(
        "insert into outbox_event (event_id, event_type, shard, occurred_at, due_at, created_at, status, done_at,
                                   last_error, payload)
         values ({id}, 'mail.wanted', 0, {long_ago}, {due}, {long_ago}, 3, {long_ago}, 'no such mailbox', {payload}),
                ({id}, 'order.placed', 0, {long_ago}, {long_ago}, {long_ago}, 0, null, null, {payload})"
    )
}

#[test]
fn dead_letters_and_late_events_of_an_outbox_are_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    let run = |arguments: &[&str]| run(&[arguments, &["--database-url", &url]].concat());
    an_ill_outbox_is_said_to_be(run, || {
        let conn = rusqlite::Connection::open(&file).unwrap();
        conn.execute(&ill("randomblob(16)", "1000000", "x'7b7d'", true), []).unwrap();
    });
}

#[test]
fn dead_letters_and_late_events_of_an_outbox_on_postgres_are_named_with_the_remedy() {
    let Some(place) = Place::new() else { return };
    let long_ago = "now() - interval '1 hour'";
    let ill = ill("gen_random_uuid()", long_ago, "'{}'", true);
    an_ill_outbox_is_said_to_be(|arguments| place.run(arguments), || place.sql(&ill));
}

/// Tables that cannot be worked with are wrong, and what is there beside them is looked at all the same.
/// `sql` undoes what it is told to.
pub(crate) fn tables_that_cannot_be_worked_with_are_named(
    run: impl Fn(&[&str]) -> Output,
    sql: impl Fn(&str),
) {
    for (made, undone, code, remedy) in [
        (&["migrate"][..], "outbox_schema", "outbox-unusable", "run `sendoff migrate`"),
        (
            &["journal", "migrate"],
            "journal_schema",
            "journal-unusable",
            "run `sendoff journal migrate`",
        ),
    ] {
        assert!(run(made).status.success());
        sql(&format!("update {undone} set version = version + 100"));
        let newer = run(&["doctor", "--json"]);
        assert_eq!(newer.status.code(), Some(1), "{}", stderr(&newer));
        assert!(findings(&report(&newer), code)[0].contains("upgrade it"), "{}", report(&newer));
        sql(&format!("update {undone} set version = version - 100"));
        assert_eq!(run(&["doctor"]).status.code(), Some(0));

        // As it was before the later ones ran.
        sql(&format!("update {undone} set version = -version where version > 2"));
        let older = run(&["doctor", "--json"]);
        assert_eq!(older.status.code(), Some(1), "{}", stderr(&older));
        let found = report(&older);
        let found = findings(&found, code);
        assert!(found[0].contains("older version") && found[0].contains(remedy), "{found:?}");
        assert!(!found[0].contains("there is no"), "{found:?}");
        let text = String::from_utf8(run(&["doctor"]).stdout).unwrap();
        assert!(text.contains("wrong: ") && !text.contains("nothing is wrong"), "{text}");
        sql(&format!("update {undone} set version = -version where version < 0"));
    }
    for undone in ["outbox_schema", "journal_schema"] {
        sql(&format!("update {undone} set version = -version where version > 2"));
    }
    let both = report(&run(&["doctor", "--json"]));
    assert_eq!(both["findings"].as_array().unwrap().len(), 2, "{both}");
}

#[test]
fn tables_that_cannot_be_worked_with_on_postgres_are_named() {
    let Some(place) = Place::new() else { return };
    tables_that_cannot_be_worked_with_are_named(|asked| place.run(asked), |sql| place.sql(sql));
}

/// Rights that are missing for the one are no reason to be silent about it beside the other.
#[test]
fn rights_that_are_missing_are_named_with_the_remedy() {
    let Some(place) = Place::new() else { return };
    let _journal = journal(&place);
    let role = place.schema.replace("cli", "cli_reader");
    place.sql(&format!(
        "create role {role} login; grant usage on schema {0} to {role};
         grant select on all tables in schema {0} to {role};
         grant select on all sequences in schema {0} to {role}",
        place.schema
    ));
    let url = place.url.replacen("postgres@", &format!("{role}@"), 1);
    let doctor = || Running::start(place.sendoff_at(&url, &["doctor", "--json"])).ended();
    let without = doctor();
    assert!(place.run(&["migrate"]).status.success());
    let hidden = doctor();
    place.sql(&format!("drop owned by {role}; drop role {role}"));
    assert_eq!(without.status.code(), Some(0), "{}", stderr(&without));
    assert_eq!(hidden.status.code(), Some(1), "{}", stderr(&hidden));
    let found = report(&hidden);
    let found = findings(&found, "outbox-unusable");
    assert!(found[0].contains("denied") && found[0].contains("grant"), "{found:?}");
}

#[test]
fn a_file_of_a_newer_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    let run = |arguments: &[&str]| run(&[arguments, &["--database-url", &url]].concat());
    for made in [&["migrate"][..], &["journal", "migrate"]] {
        assert!(run(made).status.success());
    }
    let conn = rusqlite::Connection::open(&file).unwrap();
    conn.execute("update outbox_schema set version = 99", []).unwrap();
    let newer = run(&["doctor", "--json"]);
    assert_eq!(newer.status.code(), Some(1), "{}", stderr(&newer));
    assert!(findings(&report(&newer), "outbox-unusable")[0].contains("version 99"));
}

/// Holds J6: whoever holds the tail back has a name, a process or a prepared transaction.
#[test]
fn the_process_and_the_prepared_transaction_are_named() {
    let Some(place) = Place::new() else { return };
    let journal = journal(&place);
    let gid = format!("cli_{}", EventId::generate());
    let (mut open, mut prepared) = (place.client(), place.client());
    let pid: i32 = place.block_on(async {
        for client in [&mut open, &mut prepared] {
            client.batch_execute("begin; set application_name = 'slowpoke'").await.unwrap();
            journal.append_in(client, [fact("opened", "w1")], None).await.unwrap();
        }
        let pid = open.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        open.batch_execute("select 'what it did last'").await.unwrap();
        prepared.batch_execute(&format!("prepare transaction '{gid}'")).await.unwrap();
        pid
    });
    let undo = Undo { place: &place, gid: &gid };

    let calm = place.run(&["doctor", "--json"]);
    assert_eq!(calm.status.code(), Some(0), "an append takes a moment: {}", stderr(&calm));
    assert_eq!(report(&calm)["holders"].as_array().unwrap().len(), 2);
    let wrong = place.run(&["doctor", "--json", "--open", "0s"]);
    let asked = place.run(&["doctor", "--queries"]);
    drop(undo);
    place.block_on(open.batch_execute("rollback")).unwrap();

    assert_eq!(wrong.status.code(), Some(1));
    let wrong = report(&wrong);
    let holders = wrong["holders"].as_array().unwrap();
    let process = holders.iter().find(|holder| holder["pid"] == pid).unwrap();
    assert_eq!(process["application"], "slowpoke");
    assert!(process["since"].is_string() && process["query"].is_null(), "{process}");
    let other = holders.iter().find(|holder| holder["gid"] == *gid).unwrap();
    assert!(other["pid"].is_null() && other["since"].is_string(), "{other}");
    let held = findings(&wrong, "held");
    assert!(held.iter().any(|text| text.contains(&format!("process {pid} "))), "{held:?}");
    let remedy = format!("ROLLBACK PREPARED '{gid}'");
    assert!(held.iter().any(|text| text.contains(&remedy)), "{held:?}");
    let asked = String::from_utf8(asked.stdout).unwrap();
    assert!(asked.contains("what it did last"), "{asked}");

    assert_eq!(place.run(&["doctor", "--open", "0s"]).status.code(), Some(0));
}

#[test]
fn what_a_tail_relies_on_and_how_pairs_are_is_judged() {
    let Some(place) = Place::new() else { return };
    let _journal = journal(&place);
    let role = place.schema.replace("cli", "cli_role");
    place.sql("alter sequence journal_position cache 20");
    place.sql(&format!(
        "create role {role}; alter role {role} set default_transaction_isolation = 'serializable'"
    ));
    place.sql(
        "insert into journal_cursor (topic, publisher, status, error_count, last_error, leader) \
         values ('t', 'failed', 'FAILED', 1, 'no such mailbox', null), \
                ('t', 'gone', 'ACTIVE', 2, 'away', 'n1 of yesterday'), \
                ('t', 'paused', 'PAUSED', 0, null, null)",
    );
    place.sql("insert into journal_parked (topic, publisher, position) values ('t', 'gone', 1)");
    let ill = place.run(&["doctor", "--json"]);
    place.sql(&format!("drop role {role}"));
    assert_eq!(ill.status.code(), Some(1), "{}", stderr(&ill));
    let ill = report(&ill);
    for (code, part) in [
        ("sequence", "ALTER SEQUENCE"),
        ("failed", "t:failed stopped at a fact that could not be published: no such mailbox"),
        ("failing", "t:gone failed 2 times"),
        ("leaderless", "n1 of yesterday is gone"),
        ("given-up", "retry or discard"),
        ("paused", "t:paused is paused"),
    ] {
        assert!(findings(&ill, code).iter().any(|text| text.contains(part)), "{code}: {ill}");
    }
    let isolation = findings(&ill, "isolation");
    assert!(isolation.iter().any(|text| text.contains(&role)), "{isolation:?}");

    place.sql("alter sequence journal_position cache 1");
    place.sql("update journal_cursor set status = 'PAUSED'; delete from journal_parked");
    let advice = place.run(&["doctor"]);
    let text = String::from_utf8(advice.stdout).unwrap();
    assert_eq!(advice.status.code(), Some(0), "advice is no failure: {text}");
    assert!(text.contains("advice: t:gone is paused"), "{text}");
}
