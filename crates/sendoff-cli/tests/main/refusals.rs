//! What the program refuses, with which status and which message.

use std::fs;
use std::process::Output;

use crate::program::{Running, lines, run, sendoff, stderr, until};

/// Refused with status 2, nothing on stdout, and a message that has all of this in it.
fn assert_refused(output: &Output, parts: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty());
    for part in parts {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
}

#[test]
fn an_existing_file_is_refused_without_resume_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("thesis.txt");
    fs::write(&file, "years of work").unwrap();
    let path = file.to_str().unwrap();
    let output = run(&["demo", "--db", path, "--exit"]);
    assert_refused(&output, &["--db", path, "exists already", "--resume"]);
    let output = run(&["demo", "--db", path, "--resume", "--exit"]);
    assert_refused(&output, &["--resume", path, "not a database"]);
    assert_eq!(fs::read(&file).unwrap(), b"years of work");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was left beside it");
}

#[test]
fn a_record_without_its_database_is_refused_too() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    fs::write(folder.path().join("shop.db.deliveries"), "").unwrap();
    let output = run(&["demo", "--db", db.to_str().unwrap(), "--exit"]);
    assert_refused(&output, &["shop.db.deliveries exists already"]);
    assert!(!db.exists());
}

#[test]
fn a_foreign_database_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("other.db");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch("create table orders (total integer)").unwrap();
    drop(conn);
    let before = fs::read(&db).unwrap();
    let output = run(&["demo", "--db", db.to_str().unwrap(), "--resume", "--exit"]);
    assert_refused(&output, &["not the file of a demo"]);
    assert_eq!(fs::read(&db).unwrap(), before);
}

#[test]
fn resume_needs_a_file_that_is_there() {
    assert_refused(&run(&["demo", "--resume"]), &["--db <FILE>"]);
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("none.db");
    let output = run(&["demo", "--db", db.to_str().unwrap(), "--resume"]);
    assert_refused(&output, &["--resume --db", "none.db"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_second_demo_on_the_same_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let path = db.to_str().unwrap();
    let mut first = Running::start(sendoff(&["demo", "--db", path]));
    let record = folder.path().join("shop.db.deliveries");
    until("a delivery", || lines(&record) > 0);
    let output = run(&["demo", "--db", path, "--resume", "--exit"]);
    assert_refused(&output, &["another demo is at work"]);
    assert!(first.is_running());
}

/// Limit + 1 and limit − 1 of every number.
#[test]
fn numbers_out_of_range_are_refused_with_the_option_and_its_limits() {
    for (option, value, limits) in [
        ("--events", "0", "1..=100000000"),
        ("--events", "100000001", "1..=100000000"),
        ("--writers", "0", "1..=64"),
        ("--writers", "65", "1..=64"),
        ("--workers", "0", "1..=256"),
        ("--workers", "257", "1..=256"),
        ("--rollback", "91", "0..=90"),
        ("--failures", "101", "0..=100"),
        ("--rate", "0", "1..=1000000"),
        ("--rate", "1000001", "1..=1000000"),
        ("--check-every", "99", "100..=1000000"),
        ("--check-every", "1000001", "100..=1000000"),
        ("--seed", "x", "invalid digit"),
    ] {
        assert_refused(&run(&["demo", option, value]), &[option, value, limits]);
    }
}

#[test]
fn a_log_filter_that_is_none_is_refused() {
    let mut command = sendoff(&["demo", "--exit"]);
    command.env("SENDOFF_LOG", "sendoff=loud");
    assert_refused(&Running::start(command).ended(), &["SENDOFF_LOG", "sendoff=loud"]);
}

#[test]
fn help_and_version_are_answered() {
    for arguments in [&["--help"][..], &["demo", "--help"]] {
        let output = run(arguments);
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("Examples:"));
    }
    let output = run(&["--version"]);
    let version = format!("sendoff {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), version);
}
