//! `sendoff cleanup`, run as a process.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::postgres::Place;
use crate::program::{Running, number, report, run, sendoff, stderr, until};

/// A file with an outbox, and rows in it that ended long ago: so many delivered, so many dead.
struct File {
    _folder: TempDir,
    path: PathBuf,
    url: String,
}

impl File {
    fn with(done: u32, dead: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let url = format!("sqlite:{}", path.display());
        assert!(run(&["migrate", "--database-url", &url]).status.success());
        let file = Self { _folder: folder, path, url };
        file.add(1, done, 1_000);
        file.add(3, dead, 1_000);
        // Still to be delivered, and done a moment ago.
        file.add(0, 2, 1_000);
        file.add(1, 3, i64::MAX);
        file
    }

    fn add(&self, status: u32, rows: u32, ended: i64) {
        let sql = format!(
            "with recursive n(n) as (select 1 where {rows} > 0
                                      union all select n + 1 from n where n < {rows})
             insert into outbox_event (event_id, event_type, shard, status, occurred_at, due_at,
                                       created_at, done_at, payload)
             select randomblob(16), 't', 0, {status}, 0, 0, 0,
                    case {status} when 0 then null else {ended} end, x'00'
               from n"
        );
        self.conn().execute_batch(&sql).unwrap();
    }

    fn conn(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }

    fn rows(&self) -> u64 {
        self.conn().query_row("select count(*) from outbox_event", [], |row| row.get(0)).unwrap()
    }

    fn cleanup(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = sendoff(&[&["cleanup"][..], arguments].concat());
        command.env("SENDOFF_DATABASE_URL", &self.url);
        command
    }
}

/// Holds L7: a moment in the place of an age.
#[test]
fn a_cleanup_deletes_what_ended_before_a_moment() {
    let file = File::with(2, 1);
    // 1970-01-02, a day after the others ended.
    file.add(1, 4, 86_400_000_000);
    let before = ["--once", "--include-dead", "--json", "--before", "1970-01-02T00:00:00Z"];
    let done = Running::start(file.cleanup(&before)).ended();
    assert!(done.status.success(), "{}", stderr(&done));
    let summary = report(&done);
    assert_eq!((number(&summary, "done"), number(&summary, "dead")), (2, 1));
    assert_eq!(file.rows(), 9, "what ended at that moment stays");

    let both = Running::start(file.cleanup(&["--before", "yesterday"])).ended();
    assert!(stderr(&both).contains("2026-01-31T08:00:00Z"), "{}", stderr(&both));
    let both = ["--before", "1970-01-02T00:00:00Z", "--retention", "1d"];
    let both = Running::start(file.cleanup(&both)).ended();
    assert!(stderr(&both).contains("cannot be used with"), "{}", stderr(&both));
}

/// Holds L8 and L7.
#[test]
fn a_cleanup_deletes_what_is_over_and_reports() {
    let file = File::with(2_500, 40);
    let counted = Running::start(file.cleanup(&["--dry-run", "--include-dead", "--json"])).ended();
    let foretold = report(&counted);
    assert_eq!((number(&foretold, "done"), number(&foretold, "dead")), (2_500, 40));
    assert_eq!(foretold["more"], false);
    assert_eq!(file.rows(), 2_545, "a dry run deletes nothing");

    let done = Running::start(file.cleanup(&["--once", "--json", "--limit", "700"])).ended();
    assert!(done.status.success(), "{}", stderr(&done));
    let summary = report(&done);
    assert_eq!((number(&summary, "done"), number(&summary, "dead")), (2_500, 0));
    assert_eq!(number(&summary, "passes"), 4, "{summary}");
    assert_eq!(summary["finished"], true);
    assert_eq!(file.rows(), 45);

    let said = Running::start(file.cleanup(&["--once", "--include-dead"])).ended();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("deleted 0 delivered and 40 dead events") && said.contains("nothing is left")
    );
    assert_eq!(file.rows(), 5);
}

/// Holds L7 and L8: what an inbox saw and what operators did goes after times of its own, thirty days and a year unless told.
#[test]
fn a_cleanup_forgets_what_is_kept_beside_the_events() {
    let file = File::with(0, 0);
    let ago = |days: u32| format!("(unixepoch() - {days} * 86400) * 1000000");
    for days in [1, 40, 400] {
        let ago = ago(days);
        file.conn()
            .execute_batch(&format!(
                "insert into inbox_event (consumer, event_id, seen_at)
                 values ('billing', randomblob(16), {ago});
                 insert into outbox_audit (at, action, actor, reason)
                 values ({ago}, 'pause', 'ann', 'an incident');"
            ))
            .unwrap();
    }
    let forgotten = |arguments: &[&str]| {
        let done =
            Running::start(file.cleanup(&[&["--once", "--json"], arguments].concat())).ended();
        assert!(done.status.success(), "{}", stderr(&done));
        let summary = report(&done);
        assert_eq!(summary["finished"], true);
        (number(&summary, "seen"), number(&summary, "audit"))
    };
    let longer = ["--inbox-retention", "1000d", "--audit-retention", "1000d"];
    assert_eq!(forgotten(&longer), (0, 0));
    assert_eq!(forgotten(&[]), (2, 1));
    let shorter = ["--once", "--inbox-retention", "1h", "--audit-retention", "1h"];
    let said = Running::start(file.cleanup(&shorter)).ended();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains(" and 1 that an inbox saw and 2 entries of the audit in 2 "), "{said}");
    assert_eq!(file.rows(), 5, "what ended lately stays");
}

/// Holds L8: asked to end, it ends and says what it did.
#[test]
fn a_cleanup_that_goes_on_ends_when_told_with_its_summary() {
    for signal in ["INT", "TERM"] {
        let file = File::with(30, 0);
        let mut running = Running::start(file.cleanup(&["--json", "--every", "20ms"]));
        until("the first pass", || file.rows() == 5);
        file.add(1, 12, 1_000);
        until("another pass", || file.rows() == 5);
        assert!(running.is_running());
        running.signal(signal);
        let ended = running.ended();
        assert!(ended.status.success(), "{}", stderr(&ended));
        assert_eq!(number(&report(&ended), "done"), 42);
    }
}

/// Holds L8: on a server, and a failure half-way is reported with what was done.
#[test]
fn a_cleanup_of_a_server_reports_what_it_did_before_it_failed() {
    let Some(place) = Place::new() else { return };
    assert!(place.run(&["migrate"]).status.success());
    let rows = |count: u32| {
        place.sql(&format!(
            "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                       due_at, status, done_at)
             select gen_random_uuid(), 0, 't', 'x', now(), now(), now(), 1, now() - interval '8 days'
               from generate_series(1, {count})"
        ));
    };
    rows(1_500);
    let done = place.run(&["cleanup", "--once", "--json"]);
    assert_eq!(number(&report(&done), "done"), 1_500, "{}", stderr(&done));

    // A row that must not be deleted stops the second batch.
    rows(1_500);
    place.sql(
        "create function stop() returns trigger language plpgsql as
             $$ begin raise 'this one stays'; end $$;
         create trigger stop before delete on outbox_event for each row when (old.event_type = 'x')
             execute function stop();
         update outbox_event set event_type = 'x', done_at = now() - interval '7 days 1 hour'
          where seq = (select max(seq) from outbox_event)",
    );
    let failed = place.run(&["cleanup", "--once", "--json"]);
    assert_eq!(failed.status.code(), Some(2));
    let summary = report(&failed);
    assert_eq!((number(&summary, "done"), &summary["finished"]), (1_000, &false.into()));
    assert!(stderr(&failed).contains("this one stays"), "{}", stderr(&failed));
    assert_eq!(place.number("select count(*) from outbox_event"), 500);
}

/// Holds L8: what is missing or wrong is named, with what to do, and no password is shown.
#[test]
fn what_cannot_be_cleaned_is_refused_with_the_reason() {
    let refused = |url: &str, arguments: &[&str], parts: &[&str]| {
        let mut command = sendoff(&[&["cleanup", "--once"][..], arguments].concat());
        command.env("SENDOFF_DATABASE_URL", url);
        let output = Running::start(command).ended();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(output.stdout.is_empty());
        assert!(!message.contains("tiger"), "{message}");
        for part in parts {
            assert!(message.contains(part), "no {part:?} in {message}");
        }
    };
    refused("oracle://scott:tiger@db", &[], &["Oracle Database is not supported"]);
    refused("shop:tiger", &[], &["postgres://", "sqlite:"]);
    refused("postgres://app:tiger@127.0.0.1:1/shop", &[], &["cannot be reached"]);
    refused("sqlite:/nowhere/at/all.db", &[], &["no file", "migrate first"]);
    assert!(!Path::new("/nowhere").exists());
    refused("sqlite:shop.db", &["--retention", "7"], &["--retention", "such as 7d"]);
    refused("sqlite:shop.db", &["--schema", "x"], &["a schema is for PostgreSQL"]);
    let file = File::with(0, 0);
    refused(&file.url, &["--limit", "0"], &["limit is 0"]);
    refused(&file.url, &["--prefix", "billing_"], &["no table billing_outbox_event", "migrate"]);
    let Some(place) = Place::new() else { return };
    let schema = ["--schema", &*place.schema];
    refused(&place.url, &schema, &["no table", "run `sendoff migrate`"]);
    assert!(place.run(&["migrate"]).status.success());
    let role = format!("{}_reader", place.schema);
    place.sql(&format!(
        "create role {role} login; grant usage on schema {0} to {role};
         grant select on all tables in schema {0} to {role}",
        place.schema
    ));
    let (_, server) = place.url.split_once('@').unwrap();
    let url = format!("postgres://{role}@{server}");
    let mut command = place.sendoff_at(&url, &["cleanup", "--once"]);
    command.env_remove("SENDOFF_LOG");
    let output = Running::start(command).ended();
    place.sql(&format!("drop owned by {role}; drop role {role}"));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("permission denied"), "{message}");
    assert!(message.contains("select, update and delete"), "{message}");
}
