//! Maintenance of a MariaDB or MySQL database, by the program alone.

use std::process::{Command, Output};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

use sendoff::journal::Journal;
use sendoff::mysql::MysqlJournal;

use crate::journal::{fact, positions};
use crate::program::{Running, number, report, sendoff, stderr};
use crate::{demo, doctor, events, keys, migrate, pause};

/// A database that is dropped at the end.
struct Place {
    server: String,
    name: String,
    runtime: tokio::runtime::Runtime,
}

impl Place {
    /// `None`, said aloud, where no server is named.
    fn new(name: &str) -> Option<Self> {
        let Ok(server) = std::env::var("SENDOFF_MARIADB_URL") else {
            assert!(std::env::var("CI").is_err(), "SENDOFF_MARIADB_URL is not set");
            eprintln!("SKIPPED: SENDOFF_MARIADB_URL is not set");
            return None;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let name = format!("cli_{}_{name}", std::process::id());
        let place = Self { server, name, runtime };
        place.on_server(&format!("create database {}", place.name));
        Some(place)
    }

    fn url(&self) -> String {
        let (host, _) = self.server.rsplit_once('/').unwrap();
        format!("{host}/{}", self.name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = sendoff(arguments);
        command.env("SENDOFF_DATABASE_URL", self.url());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Running::start(self.command(arguments)).ended()
    }

    fn on_server(&self, sql: &str) {
        self.execute(&self.server, sql);
    }

    fn sql(&self, sql: &str) {
        self.execute(&self.url(), sql);
    }

    fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(async {
            let mut conn = Conn::new(Opts::from_url(&self.url()).unwrap()).await.unwrap();
            conn.query_first(sql).await.unwrap().unwrap()
        })
    }

    fn execute(&self, url: &str, sql: &str) {
        self.runtime.block_on(async {
            let mut conn = Conn::new(Opts::from_url(url).unwrap()).await.unwrap();
            conn.query_drop(sql).await.unwrap();
            conn.disconnect().await.unwrap();
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.on_server(&format!("drop database {}", self.name));
    }
}

/// Holds L8, L6 and L7.
#[test]
fn partitions_and_cleanup_work_on_mariadb() {
    let Some(place) = Place::new("kept") else { return };
    let migrated = place.run(&["migrate", "--partitioned", "month"]);
    assert!(migrated.status.success(), "{}", stderr(&migrated));
    let month = ["partitions", "--period", "month", "--lookahead", "300d", "--once", "--json"];
    let done = place.run(&month);
    assert!(done.status.success(), "{}", stderr(&done));
    let made = report(&done)["created"].as_array().unwrap().len();
    assert!((8..=9).contains(&made), "{made}: two are there from the beginning");
    assert_eq!(report(&place.run(&month))["created"], serde_json::json!([]));

    place.sql(
        "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                   due_at, status, done_at)
         values (unhex(repeat('01', 16)), 0, 't', '1', utc_timestamp(6), utc_timestamp(6), null, 1,
                 utc_timestamp(6) - interval 8 day),
                (unhex(repeat('02', 16)), 0, 't', '1', utc_timestamp(6), utc_timestamp(6), null, 3,
                 utc_timestamp(6) - interval 8 day),
                (unhex(repeat('03', 16)), 0, 't', '1', utc_timestamp(6), utc_timestamp(6),
                 utc_timestamp(6), 0, null)",
    );
    let counted = report(&place.run(&["cleanup", "--dry-run", "--json", "--include-dead"]));
    assert_eq!((number(&counted, "done"), number(&counted, "dead")), (1, 1));
    let cleaned = report(&place.run(&["cleanup", "--once", "--json", "--include-dead"]));
    assert_eq!((number(&cleaned, "done"), number(&cleaned, "dead")), (1, 1));
    let again = report(&place.run(&["cleanup", "--once", "--json", "--include-dead"]));
    assert_eq!((number(&again, "done"), &again["finished"]), (0, &true.into()));
}

/// Holds L8.
#[test]
fn what_cannot_be_maintained_on_mariadb_is_refused_with_the_reason() {
    let Some(place) = Place::new("refused") else { return };
    for command in [&["cleanup", "--once"][..], &["partitions", "--once"]] {
        let missing = place.run(command);
        assert_eq!(missing.status.code(), Some(2));
        assert!(stderr(&missing).contains("run `sendoff migrate`"), "{}", stderr(&missing));
    }
    assert!(place.run(&["migrate"]).status.success());
    let flat = place.run(&["partitions", "--once"]);
    let said = stderr(&flat);
    assert!(said.contains("is flat") && !said.contains("is for the owner"), "{said}");
    let schema = place.run(&["cleanup", "--once", "--schema", "x"]);
    assert!(stderr(&schema).contains("a schema is for PostgreSQL"), "{}", stderr(&schema));
}

/// Holds J6, J7 and J9: the whole way of a journal, by the program alone.
#[test]
fn a_journal_is_made_read_operated_and_let_go_on_mariadb() {
    let Some(place) = Place::new("journal") else { return };
    for command in [&["doctor"][..], &["journal", "tail"], &["journal", "publishers", "list"]] {
        let missing = place.run(command);
        assert_eq!(missing.status.code(), Some(2));
        assert!(stderr(&missing).contains("sendoff journal migrate"), "{}", stderr(&missing));
    }
    let refused = place.run(&["journal", "migrate", "--partitioned"]);
    assert!(stderr(&refused).contains("in partitions is for PostgreSQL"), "{}", stderr(&refused));
    for did in ["journal_event: made, version", "journal_event: up to date already, version"] {
        let made = place.run(&["journal", "migrate"]);
        assert!(stderr(&made).contains(did), "{}", stderr(&made));
    }
    place.runtime.block_on(async {
        let journal = Journal::new(MysqlJournal::connect(&place.url()).await.unwrap());
        for n in 1..=12 {
            journal.append([fact("opened", &format!("w{}", n % 3))]).await.unwrap();
        }
        journal.store().close().await;
    });
    let tail = place.run(&["journal", "tail", "--after", "6", "--tag", "wallet_id=w1"]);
    assert!(tail.status.success(), "{}", stderr(&tail));
    assert_eq!(positions(&tail), [7, 10]);

    place.sql(
        "insert into journal_cursor (topic, publisher, last_position)
         values ('wallets', 'kafka', 12), ('wallets', 'mail', 8);
         insert into journal_parked (topic, publisher, position, attempts) values ('wallets', 'kafka', 5, 1)",
    );
    let kafka = ["--topic", "wallets", "--publisher", "kafka"];
    let paused = place.run(&[&["journal", "publishers", "pause", "--json"], &kafka[..]].concat());
    assert_eq!(report(&paused)["pairs"][0]["status"], "PAUSED", "{}", stderr(&paused));

    let retain = ["journal", "retain", "--once", "--keep-last", "2", "--json"];
    let kept = report(&place.run(&[&retain[..], &["--dry-run"]].concat()));
    assert_eq!((number(&kept, "facts"), number(&kept, "up_to")), (4, 4), "{kept}");
    assert_eq!(kept["held_by"].as_array().unwrap().len(), 2, "{kept}");
    let ill = place.run(&["doctor", "--json"]);
    assert_eq!(ill.status.code(), Some(1), "{}", stderr(&ill));
    let ill = report(&ill);
    let codes: Vec<_> = ill["findings"].as_array().unwrap().iter().map(|f| &f["code"]).collect();
    assert!(codes.contains(&&"given-up".into()) && codes.contains(&&"paused".into()), "{ill}");
    // What a new server begins with.
    assert!(codes.contains(&&"isolation".into()), "{ill}");
    let forgetful = doctor::findings(&ill, "forgetful").len();
    assert_eq!(forgetful as i64, place.number(FORGETFUL), "{ill}");
    assert_eq!((number(&ill, "head"), &ill["sequence"]["increment"]), (12, &1.into()));

    let discard = &["journal", "parked", "discard", "--all-positions"];
    let discarded = place.run(&[discard, &kafka[..]].concat());
    assert!(discarded.status.success(), "{}", stderr(&discarded));
    assert_eq!(number(&report(&place.run(&retain)), "facts"), 8);
    assert_eq!(place.number("select count(*) from journal_event"), 4);
    let tail = place.run(&["journal", "tail"]);
    assert_eq!(positions(&tail), [9, 10, 11, 12]);
    assert!(place.run(&["journal", "publishers", "pause", "--all"]).status.success());
    let well = place.run(&["doctor"]);
    let text = String::from_utf8(well.stdout).unwrap();
    assert_eq!(well.status.code(), Some(0), "{text}");
    assert!(text.contains("ends at position 12"), "{text}");
}

/// How many settings of the server let its crash take back commits.
const FORGETFUL: &str = "select (@@global.innodb_flush_log_at_trx_commit <> 1)
                              + (@@global.log_bin and @@global.sync_binlog <> 1)";

#[test]
fn what_a_server_forgets_in_a_crash_is_said_once_whatever_lives_on_it() {
    let Some(place) = Place::new("forgets") else { return };
    for migrated in [&["migrate"][..], &["journal", "migrate"]] {
        assert!(place.run(migrated).status.success());
        let said = place.run(&["doctor", "--json"]);
        assert_eq!(said.status.code(), Some(0), "it is advice: {}", stderr(&said));
        let said = report(&said);
        let forgetful = doctor::findings(&said, "forgetful");
        assert_eq!(forgetful.len() as i64, place.number(FORGETFUL), "{said}");
        assert!(forgetful.iter().all(|text| text.contains("set it to 1")), "{said}");
    }
}

#[test]
fn dead_letters_and_late_events_of_an_outbox_are_named_with_the_remedy() {
    let Some(place) = Place::new("doctor") else { return };
    let long_ago = "utc_timestamp(6) - interval 1 hour";
    let ill = doctor::ill("unhex(replace(uuid(), '-', ''))", long_ago, "'{}'", false);
    doctor::an_ill_outbox_is_said_to_be(|arguments| place.run(arguments), || place.sql(&ill));
}

#[test]
fn tables_that_cannot_be_worked_with_are_named() {
    let Some(place) = Place::new("undone") else { return };
    doctor::tables_that_cannot_be_worked_with_are_named(
        |asked| place.run(asked),
        |sql| place.sql(sql),
    );
}

/// Holds L10.
#[test]
fn what_migrate_did_is_said() {
    let Some(place) = Place::new("did") else { return };
    migrate::what_it_did_is_said(
        |asked| place.run(asked),
        || place.sql("drop table inbox_event; delete from outbox_schema where version = 7"),
        || place.sql("delete from journal_schema where version = 5"),
    );
}

#[test]
fn dead_letters_are_listed_and_requeued() {
    let Some(place) = Place::new("letters") else { return };
    assert!(place.run(&["migrate"]).status.success());
    place.sql(
        "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                   due_at, status, done_at, attempts, last_error)
         select unhex(replace(uuid(), '-', '')), 0, 't', '{}', utc_timestamp(6), utc_timestamp(6),
                null, 3, utc_timestamp(6), 10, 'no'
           from seq_1_to_700",
    );
    events::seven_hundred_are_requeued(|asked| place.run(asked), |sql| place.number(sql));
}

#[test]
fn what_is_paused_is_shown_until_it_is_resumed() {
    let Some(place) = Place::new("paused") else { return };
    assert!(place.run(&["migrate"]).status.success());
    pause::story(|asked| place.run(asked));
}

#[test]
fn a_parked_key_is_shown_explained_and_let_go_on() {
    let Some(place) = Place::new("keys") else { return };
    assert!(place.run(&["migrate"]).status.success());
    let dialect = keys::Dialect {
        id: |n| format!("unhex(repeat('{n:02x}', 16))"),
        now: "utc_timestamp(6)",
        dead_due: "null",
        in_line: "'9998-01-01'",
        payload: "'{}'",
    };
    let make = || keys::parked(&dialect).iter().for_each(|sql| place.sql(sql));
    keys::story(|asked| place.run(asked), make);
}

/// Holds W3, D7, and the second promise, past crashes.
#[test]
fn on_mariadb_the_demo_tells_the_same_story_and_nothing_is_left() {
    let Some(place) = Place::new("demo") else { return };
    place.sql("create table sendoff_demonstration (a int)");
    let on_server = |arguments: &[&str]| {
        let mut command = sendoff(arguments);
        command.env("SENDOFF_DEMO_DATABASE_URL", place.url());
        Running::start(command).ended()
    };
    let things = "select (select count(*) from information_schema.tables
                           where table_schema = database())
                       + (select count(*) from information_schema.routines
                           where routine_schema = database()) - 1";
    demo::tells_the_same_story(on_server, || place.number(things));
    place.sql("create table sendoff_demo_orders (a int)");
    for resume in [None, Some("--resume")] {
        let arguments: Vec<_> = ["demo", "--exit"].into_iter().chain(resume).collect();
        assert_eq!(on_server(&arguments).status.code(), Some(2), "a table that is not a demo's");
    }
    assert_eq!(place.number(things), 1, "it was left as it is");
}
