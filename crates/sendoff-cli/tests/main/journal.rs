//! `sendoff journal`, on real databases.

use std::fs::File;
use std::process::Output;

use sendoff::journal::{Fact, Journal, JournalStore};
use sendoff::postgres::{JournalOptions, PostgresJournal, PostgresOptions};
use sendoff::sqlite::SqliteJournal;
use serde_json::Value;

use crate::postgres::Place;
use crate::program::{Running, lines, report, run, sendoff, stderr, until};

pub(crate) type Log = Journal<PostgresJournal>;

/// A journal that the program made, and a handle on it.
pub(crate) fn journal(place: &Place) -> Log {
    let made = place.run(&["journal", "migrate"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let schema = Some(sendoff::Ident::new(&place.schema).unwrap());
    let server = PostgresOptions { schema, ..PostgresOptions::default() };
    let options = JournalOptions { server, ..JournalOptions::default() };
    place.block_on(async {
        Journal::new(PostgresJournal::connect_with(&place.url, options).await.unwrap())
    })
}

pub(crate) fn fact(event_type: &str, wallet: &str) -> Fact {
    Fact::builder((event_type, r#"{"cents":1}"#)).tag("wallet_id", wallet).build().unwrap()
}

async fn append(journal: &Journal<impl JournalStore>, facts: &[Fact]) {
    journal.append(facts.to_vec()).await.unwrap();
}

fn printed(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn positions(output: &Output) -> Vec<u64> {
    printed(output).iter().map(|fact| fact["position"].as_u64().unwrap()).collect()
}

/// Holds S8.
#[test]
fn a_journal_is_made_and_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    for did in ["billing_journal_event: made, version", "billing_journal_event: up to date already"]
    {
        let done = run(&["journal", "migrate", "--database-url", &url, "--prefix", "billing_"]);
        assert!(done.status.success(), "{}", stderr(&done));
        assert!(stderr(&done).contains(did), "{}", stderr(&done));
        assert!(done.stdout.is_empty());
    }
    let Some(place) = Place::new() else { return };
    for did in ["journal_event: made, version", "journal_event: up to date already, version"] {
        let done = place.run(&["journal", "migrate"]);
        assert!(done.status.success(), "{}", stderr(&done));
        assert!(stderr(&done).contains(did), "{}", stderr(&done));
    }
    assert_eq!(place.number("select count(*) from journal_event"), 0);
}

/// Holds W6.
#[test]
fn the_script_can_be_read_before_it_is_run() {
    let printed = run(&["journal", "migrate", "--print", "--schema", "shop"]);
    assert!(printed.status.success());
    let script = String::from_utf8(printed.stdout).unwrap();
    assert!(script.starts_with("begin") && script.ends_with("commit;\n"), "{script}");
    assert!(script.contains("\"shop\".journal_event"));
}

/// Holds L10: of a journal too, for every kind of database, new or made by an older version.
#[test]
fn the_script_is_for_the_database_that_is_named_and_for_its_version() {
    for url in ["postgres:", "mysql:", "sqlite:nowhere.db"] {
        let printed = |from| {
            let printed =
                run(&["journal", "migrate", "--print", "--database-url", url, "--from", from]);
            assert!(printed.status.success(), "{}", stderr(&printed));
            String::from_utf8(printed.stdout).unwrap()
        };
        let (whole, rest) = (printed("0"), printed("2"));
        assert!(whole.contains("journal_cursor") && rest.len() < whole.len(), "{url}: {rest}");
        assert!(!rest.contains("create table journal_event "), "{url}: {rest}");
    }
}

#[test]
fn where_there_is_no_journal_that_is_said_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.db");
    let url = format!("sqlite:{}", file.display());
    let commands: [&[&str]; 4] = [
        &["doctor"],
        &["journal", "tail"],
        &["journal", "publishers", "list"],
        &["journal", "parked", "list"],
    ];
    for command in commands {
        let refused = run(&[command, &["--database-url", &url]].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("sendoff journal migrate"), "{}", stderr(&refused));
        assert!(!file.exists());
        if let Some(place) = Place::new() {
            let refused = place.run(command);
            assert_eq!(refused.status.code(), Some(2));
            assert!(stderr(&refused).contains("sendoff journal migrate"), "{}", stderr(&refused));
        }
    }
}

/// Holds J2: from a file, by type and by tag, from a position on.
#[test]
fn facts_are_printed_in_order_and_chosen_by_type_and_tag() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = Journal::new(SqliteJournal::open(&file).await.unwrap());
        let facts = [fact("opened", "w1"), fact("opened", "w2"), fact("closed", "w1")];
        append(&journal, &facts).await;
        journal.store().close().await;
    });
    let tail = |more: &[&str]| {
        let output = run(&[&["journal", "tail", "--database-url", &url], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let all = tail(&[]);
    assert_eq!(positions(&all), [1, 2, 3]);
    assert!(stderr(&all).contains("--after 3"), "{}", stderr(&all));
    let first = &printed(&all)[0];
    assert_eq!(first["event_type"], "opened");
    assert_eq!(first["tags"], serde_json::json!(["wallet_id=w1"]));
    assert_eq!(first["payload"]["cents"], 1);
    assert_eq!(positions(&tail(&["--after", "1"])), [2, 3]);
    assert_eq!(positions(&tail(&["--tag", "wallet_id=w1"])), [1, 3]);
    assert_eq!(positions(&tail(&["--tag", "wallet_id=w1", "--type", "closed"])), [3]);
    assert_eq!(positions(&tail(&["--type", "closed", "--type", "opened"])), [1, 2, 3]);
    let wrong = run(&["journal", "tail", "--database-url", &url, "--tag", "wallet"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("--tag"), "{}", stderr(&wrong));
}

/// Holds J6: an append that is open holds back what is above it, and is not skipped.
#[test]
fn a_tail_waits_for_what_is_open_and_prints_all_in_order() {
    let Some(place) = Place::new() else { return };
    let journal = journal(&place);
    let mut slow = place.client();
    place.block_on(async {
        append(&journal, &[fact("opened", "w1")]).await;
        slow.batch_execute("begin").await.unwrap();
        journal.append_in(&mut slow, [fact("late", "w2")], None).await.unwrap();
        append(&journal, &[fact("opened", "w3")]).await;
    });
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("stderr");
    let mut command = place.sendoff(&["journal", "tail"]);
    command.stderr(File::create(&said).unwrap());
    let mut running = Running::start(command);
    until("it says that it waits", || lines(&said) > 0);
    assert!(running.is_running());
    place.block_on(slow.batch_execute("commit")).unwrap();
    let output = running.ended();
    assert!(output.status.success());
    assert_eq!(positions(&output), [1, 2, 3]);
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("waiting at positions 2 to 2"), "{said}");
}

/// Holds J6: what comes is printed until it is told to end, and by whom nobody cares.
#[test]
fn a_tail_follows_until_it_is_told_to_end() {
    let Some(place) = Place::new() else { return };
    let journal = journal(&place);
    place.block_on(append(&journal, &[fact("old", "w1")]));
    let folder = tempfile::tempdir().unwrap();
    let (out, said) = (folder.path().join("stdout"), folder.path().join("stderr"));
    let mut command =
        place.sendoff(&["journal", "tail", "--from-now", "--follow", "--every", "5ms"]);
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&said).unwrap());
    let running = Running::start(command);
    until("it follows", || lines(&said) > 0);
    place.block_on(append(&journal, &[fact("new", "w1"), fact("new", "w2")]));
    until("it has printed both", || lines(&out) == 2);
    running.signal("TERM");
    assert!(running.ended().status.success());
    let printed = std::fs::read_to_string(out).unwrap();
    assert!(!printed.contains("\"old\"") && printed.contains("wallet_id=w2"), "{printed}");
}

const CURSORS: &str = "insert into journal_cursor (topic, publisher, last_position, status, \
    error_count, last_error) values ('wallets', 'kafka', 2, 'ACTIVE', 0, null), \
    ('wallets', 'mail', 1, 'FAILED', 3, 'no such mailbox'), ('orders', 'kafka', 0, 'ACTIVE', 0, null)";

/// Holds J9: by the command line, each pair for itself, and what failed is not resumed by accident.
#[test]
fn publishers_are_listed_paused_resumed_reset_and_rewound() {
    let Some(place) = Place::new() else { return };
    let journal = journal(&place);
    let facts: Vec<_> = (0..3).map(|_| fact("opened", "w1")).collect();
    place.block_on(append(&journal, &facts));
    place.sql(CURSORS);
    let publishers = |arguments: &[&str]| {
        place.run(&[&["journal", "publishers"], arguments, &["--json"]].concat())
    };
    let pair = |output: &Output, topic: &str, publisher: &str| -> Value {
        let report = report(output);
        let pairs = report["pairs"].as_array().unwrap();
        let found = |pair: &&Value| pair["topic"] == topic && pair["publisher"] == publisher;
        pairs.iter().find(found).unwrap_or_else(|| panic!("{report}")).clone()
    };

    let listed = publishers(&["list"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert_eq!(report(&listed)["pairs"].as_array().unwrap().len(), 3);
    let mail = pair(&listed, "wallets", "mail");
    assert_eq!((&mail["lag"], &mail["status"]), (&2.into(), &"FAILED".into()));
    assert_eq!(mail["last_error"], "no such mailbox");
    let text = place.run(&["journal", "publishers", "list", "--topic", "orders"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert_eq!(text, "orders:kafka  ACTIVE at 0, lags by 3, led by nobody\n");

    let paused = publishers(&["pause", "--topic", "wallets", "--publisher", "kafka"]);
    assert_eq!(pair(&paused, "wallets", "kafka")["status"], "PAUSED");
    let listed = publishers(&["list"]);
    assert_eq!(pair(&listed, "orders", "kafka")["status"], "ACTIVE");

    let resumed = publishers(&["resume", "--topic", "wallets"]);
    assert_eq!(resumed.status.code(), Some(1));
    assert!(stderr(&resumed).contains("wallets:mail had failed"), "{}", stderr(&resumed));
    assert_eq!(pair(&resumed, "wallets", "kafka")["status"], "ACTIVE");
    assert_eq!(pair(&resumed, "wallets", "mail")["status"], "FAILED");

    let reset = publishers(&["reset", "--publisher", "mail"]);
    assert!(reset.status.success());
    let mail = pair(&reset, "wallets", "mail");
    assert_eq!((&mail["status"], &mail["errors"]), (&"ACTIVE".into(), &0.into()));

    let looked = publishers(&["rewind", "--publisher", "kafka", "--to-position", "0", "--dry-run"]);
    assert_eq!(pair(&looked, "wallets", "kafka")["position"], 2);
    let rewound = publishers(&["rewind", "--topic", "wallets", "--to-position", "0"]);
    assert_eq!(pair(&rewound, "wallets", "kafka")["position"], 0);
    let nowhere = publishers(&["rewind", "--all", "--to-position", "99"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(stderr(&nowhere).contains("ahead of the journal"), "{}", stderr(&nowhere));
    let ahead = publishers(&["rewind", "--all", "--to-time", "2999-01-01T00:00:00Z"]);
    assert_eq!(pair(&ahead, "orders", "kafka")["position"], 3);
    let back = publishers(&["rewind", "--all", "--to-time", "2020-01-01T00:00:00Z"]);
    assert_eq!(pair(&back, "orders", "kafka")["position"], 0);
}

/// Holds J9: nobody changes all pairs, or none, by leaving something out.
#[test]
fn what_is_to_be_changed_has_to_be_said() {
    let Some(place) = Place::new() else { return };
    let _journal = journal(&place);
    for (arguments, part) in [
        (&["publishers", "pause"][..], "--all"),
        (&["publishers", "pause", "--topic", "nobody"], "no such pair"),
        (&["publishers", "rewind", "--all"], "--to-position"),
        (&["publishers", "rewind", "--all", "--to-time", "yesterday"], "2026-01-31T08:00:00Z"),
        (&["publishers", "rewind", "--all", "--to-position", "-1"], "-1"),
        (&["publishers", "pause", "--all", "--topic", "wallets"], "cannot be used with"),
        (&["parked", "discard"], "--all"),
        (&["parked", "discard", "--all"], "--all-positions"),
        (&["tail", "--from-now"], "--follow"),
    ] {
        let refused = place.run(&[&["journal"], arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&refused).contains(part), "{arguments:?}: {}", stderr(&refused));
        assert!(refused.stdout.is_empty());
    }
    let mysql = run(&["journal", "tail", "--database-url", "mysql://app:tiger@db/shop"]);
    assert_eq!(mysql.status.code(), Some(2));
    assert!(!stderr(&mysql).contains("tiger"));
}

/// Holds J7, J9.
#[test]
fn what_was_parked_is_listed_retried_and_discarded() {
    let Some(place) = Place::new() else { return };
    let _journal = journal(&place);
    place.sql(CURSORS);
    place.sql(
        "insert into journal_parked (topic, publisher, position, attempts, next_at, error) values \
         ('wallets', 'kafka', 1, 10, null, 'too large'), \
         ('wallets', 'kafka', 2, 1, now() + interval '1 hour', 'later'), \
         ('wallets', 'mail', 1, 1, null, null)",
    );
    let parked = |arguments: &[&str]| place.run(&[&["journal", "parked"], arguments].concat());
    let listed = parked(&["list", "--publisher", "kafka", "--json"]);
    assert_eq!(positions(&listed), [1, 2]);
    assert_eq!(printed(&listed)[0]["error"], "too large");
    assert_eq!(printed(&listed)[0]["next_at"], Value::Null);
    let limited = parked(&["list", "--limit", "1"]);
    let limited = String::from_utf8(limited.stdout).unwrap();
    assert_eq!(limited.lines().count(), 1);
    assert!(limited.starts_with("wallets:kafka at 1: 10 attempts since "), "{limited}");

    let kafka = ["--topic", "wallets", "--publisher", "kafka"];
    let retried = parked(&[&["retry", "--position", "1"], &kafka[..]].concat());
    assert_eq!(String::from_utf8(retried.stdout).unwrap(), "1 facts due now\n");
    let due = "select count(*) from journal_parked where next_at <= now()";
    assert_eq!(place.number(due), 1);

    let counted =
        parked(&[&["discard", "--all-positions", "--dry-run", "--json"], &kafka[..]].concat());
    assert_eq!(report(&counted)["facts"], 2);
    assert_eq!(place.number("select count(*) from journal_parked"), 3);
    assert!(parked(&[&["discard", "--all-positions"], &kafka[..]].concat()).status.success());
    assert_eq!(place.number("select count(*) from journal_parked"), 1);
    assert_eq!(
        parked(&[&["discard", "--all-positions"], &kafka[..]].concat()).status.code(),
        Some(3)
    );
    assert_eq!(parked(&["list", "--publisher", "kafka"]).status.code(), Some(3));
}

#[test]
fn every_command_has_help_with_examples() {
    for arguments in
        [&["journal"][..], &["journal", "tail"], &["journal", "publishers"], &["doctor"]]
    {
        let mut command = sendoff(arguments);
        command.arg("--help");
        let help = Running::start(command).ended();
        assert!(String::from_utf8(help.stdout).unwrap().contains("Examples:"), "{arguments:?}");
    }
}
