//! `sendoff demo`: what committed arrives, also across kills and restarts.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::postgres::Place;
use crate::program::{Running, lines, number, report, run, sendoff, stderr, until};

/// In every order's payload.
const SECRET: &str = "leave it with the neighbours";

fn deliveries_of(db: &Path) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push(".deliveries");
    name.into()
}

fn numbers<const N: usize>(report: &Value, fields: [&str; N]) -> [u64; N] {
    fields.map(|field| number(report, field))
}

/// Holds W3, D7: what committed arrives past rollbacks and failures, and nothing else does.
#[test]
fn a_short_run_delivers_what_was_committed_and_nothing_else() {
    let output = run(&[
        "demo",
        "--events",
        "300",
        "--exit",
        "--json",
        "--rollback",
        "30",
        "--failures",
        "10",
        "--seed",
        "7",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&output);
    assert_eq!(numbers(&report, ["written", "delivered"]), [300, 300], "{report}");
    let flaws = ["lost", "phantoms", "duplicates", "violations", "dead", "pending"];
    assert_eq!(numbers(&report, flaws), [0; 6], "{report}");
    assert!(number(&report, "rolled_back") > 0 && number(&report, "failed_attempts") > 0);
    assert_eq!(number(&report, "hot") + number(&report, "cold"), 300);
    assert!(report["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count(), 1, "only the report");
}

#[test]
fn the_same_seed_rolls_back_and_fails_the_same() {
    let again = || {
        let output = run(&["demo", "--events", "200", "--exit", "--json", "--seed", "42"]);
        numbers(&report(&output), ["rolled_back", "failed_attempts"])
    };
    assert_eq!(again(), again());
}

/// Holds D7.
#[test]
fn events_that_always_fail_are_dead_and_not_lost() {
    let output = run(&["demo", "--events", "5", "--failures", "100", "--exit", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&output);
    assert_eq!(numbers(&report, ["written", "delivered", "dead", "lost"]), [5, 0, 5, 0]);
    assert_eq!(number(&report, "failed_attempts"), 50, "ten attempts each");
}

/// One line for all of them.
#[test]
fn dead_letters_are_a_line_of_the_report_and_not_one_each() {
    let output = run(&["demo", "--events", "4", "--failures", "100", "--exit"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("event is dead"), "{}", stderr(&output));
    let report = String::from_utf8_lossy(&output.stdout);
    let dead: Vec<_> = report.lines().filter(|line| line.contains("dead")).collect();
    assert_eq!(dead, ["  dead                 4   each failed 10 times"]);
}

/// Holds W3 and the second promise, past a crash.
#[test]
fn whatever_was_committed_before_a_kill_is_delivered_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let path = db.to_str().unwrap();

    // Faster than a laptop should be, so that there is something in every stage.
    let running = Running::start(sendoff(&["demo", "--db", path, "--rate", "1000000"]));
    until("200 deliveries", || lines(&deliveries_of(&db)) >= 200);
    running.kill();
    let orders = || -> u64 {
        let conn = rusqlite::Connection::open(&db).unwrap();
        conn.query_row("select count(*) from orders", [], |row| row.get(0)).unwrap()
    };
    let committed = orders();
    assert!(committed >= 200);

    let output = run(&["demo", "--db", path, "--resume", "--exit", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let first = report(&output);
    assert_eq!(numbers(&first, ["written", "delivered"]), [committed; 2], "{first}");
    let flaws = ["lost", "phantoms", "violations", "unexplained", "dead", "pending"];
    assert_eq!(numbers(&first, flaws), [0; 6], "{first}");
    let received = lines(&deliveries_of(&db)) as u64;
    assert_eq!(received, committed + number(&first, "duplicates"), "every delivery has its line");

    // And once more, with new orders on top.
    let output = run(&["demo", "--db", path, "--resume", "--events", "50", "--exit", "--json"]);
    let second = report(&output);
    assert_eq!(numbers(&second, ["written", "delivered"]), [committed + 50; 2], "{second}");
    assert_eq!(second["duplicates"], first["duplicates"], "nothing was killed in between");
    assert_eq!(orders(), committed + 50);
}

/// A delivery that nobody ever ordered, planted into the record: the checker must see it.
#[test]
fn a_delivery_without_an_order_is_found_and_ends_in_failure() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let path = db.to_str().unwrap();
    assert!(run(&["demo", "--db", path, "--events", "5", "--exit"]).status.success());
    let record = std::fs::read_to_string(deliveries_of(&db)).unwrap();
    let planted = "01563e3a-b5d3-d676-4c61-efb99302bd5b 1 1 00000000000000ff\n";
    std::fs::write(deliveries_of(&db), format!("{record}{planted}")).unwrap();

    let output = run(&["demo", "--db", path, "--resume", "--exit", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(numbers(&report(&output), ["phantoms", "violations"]), [1, 1]);
    assert!(stderr(&output).contains("01563e3a-b5d3-d676-4c61-efb99302bd5b was delivered"));
}

/// The other way round: orders whose deliveries the record has forgotten.
#[test]
fn an_order_without_a_delivery_is_found_and_ends_in_failure() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let path = db.to_str().unwrap();
    // One that had failed at first would miss its first attempt as well.
    let arguments = ["demo", "--db", path, "--events", "5", "--failures", "0", "--exit"];
    assert!(run(&arguments).status.success());
    std::fs::write(deliveries_of(&db), "").unwrap();

    let output = run(&["demo", "--db", path, "--resume", "--exit", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(numbers(&report(&output), ["lost", "violations"]), [5, 5]);
}

/// Holds D10.
#[cfg(unix)]
#[test]
fn ctrl_c_closes_in_order_and_what_is_left_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let arguments = ["demo", "--db", db.to_str().unwrap(), "--failures", "50", "--json"];
    let running = Running::start(sendoff(&arguments));
    until("100 deliveries", || lines(&deliveries_of(&db)) >= 100);
    running.signal("INT");
    let output = running.ended();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = report(&output);
    let [written, delivered, dead, pending] =
        numbers(&report, ["written", "delivered", "dead", "pending"]);
    assert_eq!(written, delivered + dead + pending, "{report}");
    assert_eq!(numbers(&report, ["lost", "phantoms", "duplicates", "violations"]), [0; 4]);
}

#[cfg(unix)]
#[test]
fn with_events_and_no_exit_it_waits_for_ctrl_c_after_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let arguments = ["demo", "--db", db.to_str().unwrap(), "--events", "20", "--json"];
    let mut running = Running::start(sendoff(&arguments));
    until("20 deliveries", || lines(&deliveries_of(&db)) >= 20);
    assert!(running.is_running());
    running.signal("TERM");
    let output = running.ended();
    assert!(output.status.success());
    assert_eq!(numbers(&report(&output), ["written", "delivered", "pending"]), [20, 20, 0]);
}

/// A database that takes nothing any more keeps the demo from closing in order.
#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let mut running = Running::start(sendoff(&["demo", "--db", db.to_str().unwrap()]));
    until("a delivery", || lines(&deliveries_of(&db)) > 0);
    let mut conn = rusqlite::Connection::open(&db).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    let lock = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    until("the end", || {
        let running_on = running.is_running();
        if running_on {
            running.signal("INT");
        }
        !running_on
    });
    assert_eq!(running.ended().status.code(), Some(130));
    drop(lock);
}

#[test]
fn a_run_is_judged_in_pieces_and_counted_as_a_whole() {
    let output = run(&[
        "demo",
        "--events",
        "450",
        "--check-every",
        "100",
        "--failures",
        "20",
        "--exit",
        "--json",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&output);
    assert_eq!(numbers(&report, ["written", "delivered", "violations"]), [450, 450, 0], "{report}");
}

#[cfg(unix)]
#[test]
fn a_run_without_end_forgets_what_was_judged() {
    let folder = tempfile::tempdir().unwrap();
    let mut command =
        sendoff(&["demo", "--rate", "5000", "--check-every", "500", "--failures", "20", "--json"]);
    command.env("TMPDIR", folder.path());
    let running = Running::start(command);
    let record = || {
        let inner = std::fs::read_dir(folder.path()).unwrap().next()?.unwrap();
        Some(inner.path().join("demo.db.deliveries"))
    };
    let (mut most, mut forgotten) = (0, 0);
    until("three times it starts again with an empty record", || {
        let now = record().map_or(0, |record| lines(&record));
        if now < most {
            forgotten += 1;
            most = 0;
        }
        most = most.max(now);
        forgotten == 3
    });
    running.signal("INT");
    let output = running.ended();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&output);
    assert!(number(&report, "written") >= 1_500, "{report}");
    assert_eq!(numbers(&report, ["lost", "duplicates", "violations"]), [0; 3], "{report}");
    assert!(record().is_none(), "the temporary file is gone");
}

/// Holds M4.
#[test]
fn logs_can_be_json_and_neither_they_nor_the_report_show_a_payload() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let mut command = sendoff(&[
        "demo",
        "--db",
        db.to_str().unwrap(),
        "--events",
        "40",
        "--failures",
        "40",
        "--exit",
        "--log-format",
        "json",
    ]);
    command.env("SENDOFF_LOG", "trace");
    let output = Running::start(command).ended();
    assert!(output.status.success());

    let (stdout, log) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
    assert!(stdout.starts_with("Every promise was kept."), "{stdout}");
    assert!(!stdout.contains(SECRET) && !log.contains(SECRET));
    let failed = log.lines().find(|line| line.contains("delivery failed")).expect("a warning");
    let failed: Value = serde_json::from_str(failed).unwrap();
    assert_eq!(failed["level"], "WARN");

    let conn = rusqlite::Connection::open(&db).unwrap();
    let stored: String = conn
        .query_row("select cast(payload as text) from outbox_event limit 1", [], |row| row.get(0))
        .unwrap();
    assert!(stored.contains(SECRET), "it is in the payload: {stored}");
}

#[test]
fn a_temporary_file_is_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = sendoff(&["demo", "--events", "10", "--exit"]);
    command.env("TMPDIR", folder.path());
    assert!(Running::start(command).ended().status.success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn options_can_come_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let mut command = sendoff(&["demo", "--exit"]);
    command.env("SENDOFF_DEMO_DB", &db).env("SENDOFF_DEMO_EVENTS", "12");
    command.env("SENDOFF_DEMO_JSON", "1");
    let output = Running::start(command).ended();
    assert_eq!(number(&report(&output), "written"), 12);
    assert_eq!(lines(&deliveries_of(&db)), 12);
}

/// The story of a crash, told by one command.
#[test]
fn a_demo_that_is_killed_twice_keeps_every_promise() {
    let output = run(&["demo", "--crash", "--events", "300", "--json", "--seed", "3"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("kill -9").count(), 2, "{}", stderr(&output));
    let report = report(&output);
    let [written, delivered] = numbers(&report, ["written", "delivered"]);
    assert!(written >= 300 && written == delivered, "{report}");
    let flaws = ["lost", "phantoms", "violations", "unexplained", "dead", "pending"];
    assert_eq!(numbers(&report, flaws), [0; 6], "{report}");
}

/// A file by its URL is the file by its name.
#[test]
fn a_database_url_may_name_an_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.db");
    let url = format!("sqlite:{}", db.display());
    let output = run(&["demo", "--database-url", &url, "--events", "30", "--exit", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(numbers(&report(&output), ["written", "delivered", "violations"]), [30, 30, 0]);
    assert_eq!(lines(&deliveries_of(&db)), 30);
    assert!(stderr(&output).contains("shop.db.deliveries are left"), "{}", stderr(&output));
}

/// What a demo on a server is told, and what must hold of its end: shared with MariaDB's tests.
pub(crate) fn tells_the_same_story(run: impl Fn(&[&str]) -> Output, things: impl Fn() -> i64) {
    let short =
        ["demo", "--events", "200", "--exit", "--json", "--rollback", "30", "--failures", "10"];
    let output = run(&short);
    assert!(output.status.success(), "{}", stderr(&output));
    let first = report(&output);
    assert_eq!(numbers(&first, ["written", "delivered"]), [200, 200], "{first}");
    let flaws = ["lost", "phantoms", "duplicates", "violations", "dead", "pending"];
    assert_eq!(numbers(&first, flaws), [0; 6], "{first}");
    assert!(number(&first, "rolled_back") > 0 && number(&first, "failed_attempts") > 0);
    assert!(stderr(&output).contains("removed"), "{}", stderr(&output));
    assert_eq!(things(), 0, "nothing is left");

    let crash = ["demo", "--crash", "--events", "150", "--json", "--failures", "5"];
    let output = run(&crash);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("kill -9").count(), 2, "{}", stderr(&output));
    let crashed = report(&output);
    let [written, delivered] = numbers(&crashed, ["written", "delivered"]);
    assert!(written >= 150 && written == delivered, "{crashed}");
    let flaws = ["lost", "phantoms", "violations", "unexplained", "dead", "pending"];
    assert_eq!(numbers(&crashed, flaws), [0; 6], "{crashed}");
    assert_eq!(things(), 0, "nothing is left");

    let kept = ["demo", "--events", "20", "--exit", "--json", "--keep"];
    let output = run(&kept);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("left in the database"), "{}", stderr(&output));
    assert!(things() > 0);
    let again = run(&kept);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("there already"), "{}", stderr(&again));
    let output = run(&["demo", "--resume", "--events", "5", "--exit", "--json"]);
    assert_eq!(numbers(&report(&output), ["written", "delivered", "violations"]), [25, 25, 0]);
    assert_eq!(things(), 0, "nothing is left");
}

/// Holds W3, D7, and the second promise, past crashes.
#[test]
fn on_postgres_the_same_story_is_told_and_nothing_is_left() {
    let Some(place) = Place::new() else { return };
    let on_server = |arguments: &[&str]| {
        let mut command = sendoff(arguments);
        command.env("SENDOFF_DEMO_DATABASE_URL", &place.url);
        command.env("SENDOFF_DEMO_NAME", &place.schema);
        Running::start(command).ended()
    };
    let schemas = format!("select count(*) from pg_namespace where nspname = '{}'", place.schema);
    tells_the_same_story(on_server, || place.number(&schemas));

    place.sql(&format!("create schema {}", place.schema));
    for resume in [None, Some("--resume")] {
        let arguments: Vec<_> = ["demo", "--exit"].into_iter().chain(resume).collect();
        let output = on_server(&arguments);
        assert_eq!(output.status.code(), Some(2), "a schema that is not a demo's");
        assert!(stderr(&output).contains("left as it is"), "{}", stderr(&output));
    }
    assert_eq!(place.number(&schemas), 1);
}
