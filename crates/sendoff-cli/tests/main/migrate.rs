//! `sendoff migrate` on each kind of database.

use std::process::{Command, Output};

use tempfile::TempDir;

use crate::postgres::Place;
use crate::program::run;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sendoff"));
    command.arg("migrate").args(arguments);
    command.env_remove("SENDOFF_DATABASE_URL").env_remove("DATABASE_URL");
    command
}

fn migrate(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Holds S8: the store is chosen by the URL.
#[test]
fn an_sqlite_file_is_made_and_brought_up_to_date() {
    let folder = TempDir::new().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    for did in ["billing_outbox_event: made, version", "billing_outbox_event: up to date already"] {
        let done = migrate(&["--database-url", &url, "--prefix", "billing_"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert!(text(&done.stderr).contains(did), "{}", text(&done.stderr));
        assert!(done.stdout.is_empty());
    }
    assert!(folder.path().join("shop.db").exists());
}

/// The index for claims that are shared among tenants is made when asked for, of a table that is there too.
#[test]
fn the_index_for_fair_claims_is_made_where_it_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("shop.db");
    let url = format!("sqlite:{}", path.display());
    let has_index = || {
        let conn = rusqlite::Connection::open(&path).unwrap();
        let text = "select count(*) from sqlite_schema where name = 'outbox_event_tenant'";
        conn.query_row(text, [], |row| row.get::<_, i64>(0)).unwrap() == 1
    };
    for (arguments, expected) in
        [(&[][..], false), (&["--fair"], true), (&["--fair"], true), (&[], true)]
    {
        let done = migrate(&[&["--database-url", &url], arguments].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(has_index(), expected, "{arguments:?}");
    }
    for kind in ["postgres:", "mysql:", "sqlite:"] {
        let script = |fair: &[&str]| {
            let done = migrate(&[&["--print", "--database-url", kind], fair].concat());
            assert!(done.status.success(), "{}", text(&done.stderr));
            text(&done.stdout)
        };
        assert!(!script(&[]).contains("outbox_event_tenant"), "{kind}");
        assert!(script(&["--fair"]).contains("outbox_event_tenant"), "{kind}");
    }
}

/// Tables are made, found as they should be, and brought up to date, of an outbox and of a journal; `undo`
/// takes the last migration of each back.
pub(crate) fn what_it_did_is_said(
    run: impl Fn(&[&str]) -> Output,
    undo_outbox: impl FnOnce(),
    undo_journal: impl FnOnce(),
) {
    let says = |command: &[&str], table: &str, did: &str| {
        let done = run(command);
        let said = text(&done.stderr);
        assert!(done.status.success() && said.contains(table) && said.contains(did), "{said}");
        said.trim_end().rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    let (outbox, journal) = (["migrate"], ["journal", "migrate"]);
    let newest = says(&outbox, "outbox_event", ": made, version ");
    says(&outbox, "outbox_event", ": up to date already, version ");
    undo_outbox();
    let brought = format!(": brought from version {} to version ", newest - 1);
    assert_eq!(says(&outbox, "outbox_event", &brought), newest);
    let newest = says(&journal, "journal_event", ": made, version ");
    undo_journal();
    let brought = format!(": brought from version {} to version ", newest - 1);
    assert_eq!(says(&journal, "journal_event", &brought), newest);
    says(&journal, "journal_event", ": up to date already, version ");
}

/// Holds L10.
#[test]
fn what_migrate_did_to_a_file_is_said() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("shop.db");
    let url = format!("sqlite:{}", path.display());
    let execute = |sql| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    what_it_did_is_said(
        |asked| run(&[asked, &["--database-url", &url]].concat()),
        || {
            execute(
                "drop table inbox_event;
                 update outbox_schema set version = version - 1",
            );
        },
        || {
            execute(
                "alter table journal_cursor drop column waits_at;
                 alter table journal_cursor drop column waits_since;
                 delete from journal_schema where version = 3",
            );
        },
    );
}

/// Holds S8 and L10.
#[test]
fn what_migrate_did_on_postgres_is_said() {
    let Some(place) = Place::new() else { return };
    what_it_did_is_said(
        |asked| place.run(asked),
        || place.sql("delete from outbox_schema where version = 9"),
        || place.sql("delete from journal_schema where version = 7"),
    );
}

/// Holds W6.
#[test]
fn the_script_can_be_read_before_it_is_run() {
    let printed = migrate(&["--print", "--schema", "shop", "--prefix", "billing_"]);
    assert!(printed.status.success());
    let script = text(&printed.stdout);
    assert!(script.starts_with("begin") && script.ends_with("commit;\n"), "{script}");
    assert!(script.contains("billing_outbox_event") && script.contains("shop"));

    let hostile = migrate(&["--print", "--schema", "x; drop schema public"]);
    assert!(!hostile.status.success());
    assert!(text(&hostile.stderr).contains("found ';'"), "{}", text(&hostile.stderr));
}

/// Holds L10: for every kind of database, new or made by an older version.
#[test]
fn the_script_is_for_the_database_that_is_named_and_for_its_version() {
    let script = |arguments: &[&str]| {
        let printed = migrate(arguments);
        assert!(printed.status.success(), "{}", text(&printed.stderr));
        text(&printed.stdout)
    };
    let mysql = script(&["--print", "--database-url", "mysql://nobody@127.0.0.1:1/shop"]);
    assert!(mysql.contains("engine = InnoDB") && !mysql.contains("timestamptz"), "{mysql}");
    let sqlite = script(&["--print", "--database-url", "sqlite:nowhere.db"]);
    assert!(sqlite.contains("strict;") && sqlite.ends_with("commit;\n"), "{sqlite}");
    for url in ["postgres://nobody@127.0.0.1:1/shop", "mysql:", "sqlite:nowhere.db"] {
        let upgrade = script(&["--print", "--database-url", url, "--from", "2"]);
        assert!(upgrade.contains("outbox_audit"), "{url}: {upgrade}");
        assert!(!upgrade.contains("create table outbox_event ("), "{url}: {upgrade}");
    }
    let hourly = script(&["--print", "--database-url", "mysql:", "--partitioned", "hour"]);
    assert!(hourly.contains("partition by range columns (created_at)"), "{hourly}");
    let json = ["--print", "--database-url", "mysql:", "--payloads", "json"];
    assert!(script(&json).contains("json_valid(convert(payload using utf8mb4))"));
    let json = migrate(&["--print", "--payloads", "json"]);
    assert!(text(&json.stderr).contains("for MySQL and MariaDB"), "{}", text(&json.stderr));
    let future = migrate(&["--print", "--from", "99"]);
    assert_eq!(future.status.code(), Some(2));
    assert!(text(&future.stderr).contains("there is no version 99"), "{}", text(&future.stderr));
}

/// Holds L10: the printed script makes what the program works with.
#[test]
fn a_printed_sqlite_script_is_what_the_program_would_have_run() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("shop.db");
    let url = format!("sqlite:{}", path.display());
    let printed = migrate(&["--print", "--database-url", &url]);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(&text(&printed.stdout)).unwrap();
    drop(conn);
    let done = migrate(&["--database-url", &url]);
    assert!(text(&done.stderr).contains("up to date already"), "{}", text(&done.stderr));
}

/// Ours, then the one that an application has anyway.
#[test]
fn the_database_is_named_by_our_variable_or_else_by_database_url() {
    let folder = TempDir::new().unwrap();
    let [ours, theirs] = ["ours.db", "theirs.db"].map(|name| folder.path().join(name));
    let url = |path: &std::path::Path| format!("sqlite:{}", path.display());
    let mut both = command(&[]);
    both.env("SENDOFF_DATABASE_URL", url(&ours)).env("DATABASE_URL", url(&theirs));
    assert!(both.output().unwrap().status.success());
    assert!(ours.exists() && !theirs.exists());
    let mut only = command(&[]);
    assert!(only.env("DATABASE_URL", url(&theirs)).output().unwrap().status.success());
    assert!(theirs.exists());
    let mut empty = command(&[]);
    let refused = empty.env("DATABASE_URL", "").output().unwrap();
    assert!(text(&refused.stderr).contains("which database?"), "{}", text(&refused.stderr));
}

#[test]
fn what_is_missing_or_wrong_is_said_and_no_password_is_shown() {
    let missing = migrate(&[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("SENDOFF_DATABASE_URL"));

    for (url, said) in [
        ("oracle://scott:tiger@db", "Oracle Database is not supported"),
        ("tidb://app:tiger@db/shop", "TiDB is not supported: it has no SKIP LOCKED"),
        ("shop:tiger", "postgres://"),
    ] {
        let other = migrate(&["--database-url", url]);
        assert_eq!(other.status.code(), Some(2));
        let message = text(&other.stderr);
        assert!(message.contains(said) && !message.contains("tiger"), "{message}");
    }

    let away = migrate(&["--database-url", "postgres://app:tiger@127.0.0.1:1/shop"]);
    assert_eq!(away.status.code(), Some(2));
    assert!(text(&away.stderr).contains("cannot be reached"), "{}", text(&away.stderr));
    assert!(!text(&away.stderr).contains("tiger"));
}
