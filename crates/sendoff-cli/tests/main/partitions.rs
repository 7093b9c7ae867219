//! `sendoff partitions`, run as a process.

use crate::postgres::Place;
use crate::program::{Running, number, report, run, stderr, until};

/// Holds L8 and L6: the whole way of a table in partitions, by the program alone.
#[test]
fn partitions_are_made_and_dropped_by_the_program() {
    let Some(place) = Place::new() else { return };
    let migrated = place.run(&["migrate", "--partitioned", "day"]);
    assert!(migrated.status.success(), "{}", stderr(&migrated));
    place.sql(
        "create table outbox_event_p20010101 partition of outbox_event
             for values from ('2001-01-01 00:00:00+00') to ('2001-01-02 00:00:00+00');
         create table outbox_event_p20010102 partition of outbox_event
             for values from ('2001-01-02 00:00:00+00') to ('2001-01-03 00:00:00+00');
         insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at, due_at)
         values (gen_random_uuid(), 0, 't', 'x', now(), '2001-01-02 12:00:00+00', now())",
    );
    let once = ["partitions", "--once", "--json", "--lookahead", "32d", "--retention", "7d"];
    let foretold = report(&place.run(&[&once[..], &["--dry-run"]].concat()));
    let mut command = place.sendoff(&once);
    command.env("SENDOFF_LOG", "info");
    let done = Running::start(command).ended();
    assert!(done.status.success(), "{}", stderr(&done));
    let summary = report(&done);
    assert_eq!(summary["created"].as_array().unwrap().len(), 2);
    assert_eq!(summary["dropped"], serde_json::json!(["p20010101"]));
    assert_eq!(summary["skipped"][0]["name"], "p20010102", "a row in it is to be delivered");
    for same in ["created", "dropped", "skipped"] {
        assert_eq!(foretold[same], summary[same]);
    }
    let log = stderr(&done);
    assert!(log.contains("INFO") && log.contains("partition made"), "{log}");
    assert!(log.contains("partition dropped"), "{log}");

    let text = place.run(&["partitions", "--once", "--retention", "7d"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("made none") && text.contains("left p20010102"), "{text}");
}

/// Holds L8 and L6: one works, the other says so; told to end, the first ends and frees its lock.
#[test]
fn two_programs_at_once_and_a_signal() {
    let Some(place) = Place::new() else { return };
    assert!(place.run(&["migrate", "--partitioned", "month"]).status.success());
    place.sql(
        "create table outbox_event_p200101 partition of outbox_event
             for values from ('2001-01-01 00:00:00+00') to ('2001-02-01 00:00:00+00')",
    );
    // A reader that keeps the first one waiting for the partition.
    let sleeper = format!(
        "begin; lock table {}.outbox_event_p200101 in access share mode; select pg_sleep(60)",
        place.schema
    );
    let url = place.url.clone();
    let reader = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connected = tokio_postgres::connect(&url, tokio_postgres::NoTls).await;
            let (client, connection) = connected.unwrap();
            tokio::spawn(connection);
            let _ = client.batch_execute(&sleeper).await;
        });
    });
    let of_the_reader = format!(
        "from pg_locks where relation = '{}.outbox_event_p200101'::regclass and mode = 'AccessShareLock'",
        place.schema
    );
    let waiting = format!(
        "select count(*) from pg_locks
          where relation = '{}.outbox_event_p200101'::regclass and not granted",
        place.schema
    );
    until("the reader", || place.number(&format!("select count(*) {of_the_reader}")) == 1);
    let arguments = ["partitions", "--period", "month", "--retention", "7d", "--json"];
    let patient = [&arguments[..], &["--lock-wait", "30s"]].concat();
    let first = Running::start(place.sendoff(&patient));
    until("the first one waits", || place.number(&waiting) == 1);
    let second = place.run(&[&arguments[..], &["--once"]].concat());
    assert!(second.status.success(), "{}", stderr(&second));
    assert_eq!(number(&report(&second), "elsewhere"), 1);
    assert!(stderr(&second).contains("another maintainer is at work"));

    first.signal("TERM");
    let ended = first.ended();
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert_eq!(report(&ended)["dropped"], serde_json::json!([]));
    place.number(&format!("select count(pg_terminate_backend(pid)) {of_the_reader}"));
    reader.join().unwrap();
    until("the third one has it", || {
        report(&place.run(&[&arguments[..], &["--once"]].concat()))["elsewhere"] == 0
    });
    assert_eq!(
        place.number(
            "select count(*) from pg_class where relname = 'outbox_event_p200101'
        and relnamespace = current_schema()::regnamespace"
        ),
        0
    );
}

/// Holds L8: what has no partitions is refused, with what to do instead.
#[test]
fn what_has_no_partitions_is_refused_with_the_reason() {
    let sqlite = run(&["partitions", "--once", "--database-url", "sqlite:shop.db"]);
    assert_eq!(sqlite.status.code(), Some(2));
    assert!(
        stderr(&sqlite).contains("SQLite has no partitions") && stderr(&sqlite).contains("cleanup")
    );
    let url = ["--database-url", "sqlite:shop.db"];
    let sqlite = run(&[&["migrate", "--partitioned", "day"][..], &url].concat());
    assert!(stderr(&sqlite).contains("partitions are for"), "{}", stderr(&sqlite));
    assert!(!std::path::Path::new("shop.db").exists());

    let Some(place) = Place::new() else { return };
    let missing = place.run(&["partitions", "--once"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("run `sendoff migrate`"), "{}", stderr(&missing));
    assert!(place.run(&["migrate"]).status.success());
    let flat = place.run(&["partitions", "--once"]);
    assert_eq!(flat.status.code(), Some(2));
    let said = stderr(&flat);
    assert!(said.contains("is flat") && !said.contains("is for the owner"), "{said}");
    let flat = place.run(&["migrate", "--partitioned", "day"]);
    assert_eq!(flat.status.code(), Some(2));
    assert!(stderr(&flat).contains("not partitioned"), "{}", stderr(&flat));
    let far = place.run(&["partitions", "--once", "--lookahead", "9999d"]);
    assert!(stderr(&far).contains("lookahead"), "{}", stderr(&far));
}

/// Holds L8.
#[test]
fn help_has_examples() {
    for command in ["cleanup", "partitions"] {
        let output = run(&[command, "--help"]);
        let help = String::from_utf8(output.stdout).unwrap();
        for part in
            ["Examples:", "--once", "--dry-run", "--retention", "SENDOFF_DATABASE_URL", "crontab"]
        {
            assert!(help.contains(part), "no {part} in {help}");
        }
    }
}
