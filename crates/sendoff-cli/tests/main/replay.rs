//! `sendoff events replay`, run as a process.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Running, lines, number, report, run, sendoff, stderr, until};

/// A file with an outbox, and delivered events in it: of the keys `a` and `b` in turns, by number.
struct File {
    folder: TempDir,
}

impl File {
    fn new(rows: u32) -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap() };
        assert!(run(&["migrate", "--database-url", &file.url()]).status.success());
        let sql = format!(
            "with recursive n(n) as (select 1 union all select n + 1 from n where n < {rows})
             insert into outbox_event (event_id, event_type, ordering_key, shard, status, occurred_at, due_at,
                                       created_at, done_at, payload)
             select unhex(printf('%032x', n)), 'order.placed', case n % 2 when 1 then 'a' else 'b' end, 0, 1, 0, 0,
                    0, 1000000 * n, cast('{{\"n\":' || n || '}}' as blob)
               from n"
        );
        file.conn().execute_batch(&sql).unwrap();
        file
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.path("shop.db").display())
    }

    fn conn(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path("shop.db")).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = sendoff(&[&["events", "replay"][..], arguments].concat());
        command.env("SENDOFF_DATABASE_URL", self.url()).current_dir(self.folder.path());
        command
    }

    fn replay(&self, arguments: &[&str]) -> Output {
        Running::start(self.command(arguments)).ended()
    }

    /// The numbers of the events that a command got.
    fn seen(&self) -> Vec<u32> {
        let seen = std::fs::read_to_string(self.path("seen")).unwrap();
        let number = |line: &str| {
            let mut words = line.split(' ');
            let (key, payload, done_at) =
                (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            let n = payload["{\"n\":".len()..payload.len() - 1].parse::<u32>().unwrap();
            assert_eq!((key, done_at.len()), (if n % 2 == 1 { "a" } else { "b" }, 27));
            n
        };
        seen.lines().map(number).collect()
    }

    /// What stands in the table, as text.
    fn table(&self) -> String {
        let conn = self.conn();
        let mut rows = conn
            .prepare("select seq, status, attempts, done_at, due_at from outbox_event")
            .unwrap();
        let row = |row: &rusqlite::Row<'_>| {
            let column = |at| row.get::<_, i64>(at).unwrap();
            Ok((0..5).map(column).collect::<Vec<_>>())
        };
        format!("{:?}", rows.query_map([], row).unwrap().collect::<Vec<_>>())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Adds a line with key and number to a file; fails for the event that is named.
fn noting(fails: u32) -> [String; 3] {
    let script = format!(
        "n=$(cat); [ \"$n\" = '{{\"n\":{fails}}}' ] && exit 7; \
         echo \"$SENDOFF_ORDERING_KEY $n $SENDOFF_DONE_AT\" >> seen"
    );
    ["sh".to_owned(), "-c".to_owned(), script]
}

/// Without a command it is a dry run, which says what to do; and nothing of it is guessed.
#[test]
fn a_replay_is_a_dry_run_until_it_is_said_what_gets_the_events() {
    let file = File::new(10);
    let told = file.replay(&["--all"]);
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    assert_eq!(said(&told).trim(), "10 delivered events would be replayed");
    assert!(stderr(&told).contains("--print"), "{}", stderr(&told));
    let told =
        file.replay(&["--key", "a", "--done-to", "1970-01-01T00:00:06Z", "--dry-run", "--json"]);
    assert_eq!(
        (number(&report(&told), "events"), &report(&told)["exact"]),
        (3, &Value::from(true))
    );
    let none = file.replay(&["--type", "order.paid", "--print"]);
    assert_eq!(none.status.code(), Some(3), "{}", stderr(&none));
    for wrong in [
        &[][..],
        &["--all", "--key", "a"],
        &["--all", "--from-mark", "x"],
        &["--all", "--per-second", "0"],
    ] {
        let refused = file.replay(wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}: {}", stderr(&refused));
    }
    let help = file.replay(&["--help"]);
    assert!(said(&help).contains("Examples:") && said(&help).contains("--from-mark"));
}

/// Lines of events and nothing else on stdout; the table is as it was.
#[test]
fn events_are_printed_as_lines_of_json() {
    let file = File::new(6);
    let before = file.table();
    let printed = file.replay(&["--all", "--print"]);
    assert_eq!(printed.status.code(), Some(0), "{}", stderr(&printed));
    let events: Vec<Value> =
        said(&printed).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 6);
    for key in ["a", "b"] {
        let of_key = events.iter().filter(|event| event["ordering_key"] == key);
        let numbers: Vec<u64> =
            of_key.map(|event| event["payload"]["n"].as_u64().unwrap()).collect();
        assert!(numbers.len() == 3 && numbers.is_sorted(), "{numbers:?}");
    }
    assert_eq!(events[0]["done_at"], "1970-01-01T00:00:01.000000Z");
    assert!(stderr(&printed).contains("6 events replayed"), "{}", stderr(&printed));
    assert_eq!(file.table(), before);
}

/// A command gets each event, in order per key; where one fails it stops, says where, and goes on from there.
#[test]
fn a_command_gets_each_event_and_a_replay_goes_on_from_its_mark() {
    let file = File::new(40);
    let before = file.table();
    let [sh, c, script] = noting(21);
    let common = ["--all", "--json", "--max-attempts", "1", "--keys-at-once", "2"];
    let failed = file.replay(&[&common[..], &["--", &sh, &c, &script]].concat());
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    let told = report(&failed);
    assert_eq!(
        (&told["finished"], &told["stopped_by"]["attempts"]),
        (&Value::from(false), &Value::from(1))
    );
    let mark = told["mark"].as_str().unwrap().to_owned();
    // The other key may have come further than the one that failed, or not as far.
    let seen = file.seen();
    let over = (1..).take_while(|n| seen.contains(n)).count() as u64;
    assert!((1..=20).contains(&over), "{seen:?}");
    let [sh, c, script] = noting(0);
    let rest =
        file.replay(&[&common[..], &["--from-mark", &mark, "--", &sh, &c, &script]].concat());
    assert_eq!(rest.status.code(), Some(0), "{}", stderr(&rest));
    assert_eq!(number(&report(&rest), "delivered"), 40 - over, "all after the mark");
    let mut numbers = file.seen();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>(), "nothing is missed");
    assert_eq!(file.table(), before);
}

/// What fails is left out where that is asked for, and named.
#[test]
fn what_fails_can_be_skipped_and_is_reported() {
    let file = File::new(5);
    let [sh, c, script] = noting(3);
    let skipped =
        file.replay(&["--all", "--skip-failed", "--max-attempts", "1", "--", &sh, &c, &script]);
    assert_eq!(skipped.status.code(), Some(1), "{}", stderr(&skipped));
    let told = said(&skipped);
    assert!(told.starts_with("4 events replayed, 1 skipped"), "{told}");
    assert!(
        told.contains("00000000-0000-0000-0000-000000000003 failed after 1 attempts"),
        "{told}"
    );
    assert_eq!(lines(&file.path("seen")), 4);
}

/// Told to end, it ends after the command that runs, and prints where to go on.
#[test]
fn a_replay_that_is_interrupted_prints_its_mark() {
    let file = File::new(1_000);
    let [sh, c, script] = noting(0);
    let running =
        Running::start(file.command(&["--key", "a", "--per-second", "20", "--", &sh, &c, &script]));
    until("some are replayed", || lines(&file.path("seen")) >= 3);
    running.signal("INT");
    let ended = running.ended();
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    let told = said(&ended);
    let mark = told.rsplit_once("--from-mark ").unwrap().1.trim();
    let before = lines(&file.path("seen"));
    let rest = file.replay(&["--key", "a", "--from-mark", mark, "--dry-run", "--json"]);
    assert_eq!(number(&report(&rest), "events"), 500 - before as u64);
}
