//! Order within a key, beside the suite: what the texts decide, what they lock, and what they cost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use sendoff_core::order::{self, Ending, Head, IN_LINE, KeyEntry, KeyFate, Look, TakeTerms};
use sendoff_core::partition::Period;
use sendoff_core::{AuditNote, Death, Event, EventId, LetterAct, LetterFate, Timestamp};
use sendoff_engine::store::frame::text;
use sendoff_engine::store::{
    ChangeLetters, Except, ExtendKeys, HeldKey, InspectStore, KeyStore, LetterStore, NewRow,
    Outcome, ParkStore, ResumeKey, RunEnd, RunsWanted, Suspects, TakeKeys, TakenKeys, WakeStore,
    WalkFrom, Walked, Window,
};
use sendoff_mysql::{Layout, MysqlOptions, MysqlStore};
use sendoff_testkit::wait::within;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::place::{MARIADB, MYSQL, Place, due, write};

const HOLD: Duration = Duration::from_secs(60);
/// For a machine that has much else to do.
const MINUTES: Duration = Duration::from_secs(120);
/// Far less than what a session waits for a lock.
const PROMPT: Duration = Duration::from_millis(1_500);

fn row(key: &str) -> NewRow {
    due(Event::builder("t").ordering_key(key).json(&key).build().unwrap())
}

fn by(owner: &str) -> TakeKeys<'_> {
    TakeKeys {
        owner,
        limit: 100,
        run: 50,
        hold: HOLD,
        except: Except::NOTHING,
        suspects: Suspects::Skip,
        walk: Some(WalkFrom { after: 0, rows: 1_000 }),
    }
}

async fn take(store: &MysqlStore, take: &TakeKeys<'_>) -> TakenKeys {
    timeout(PROMPT, store.take_keys(take)).await.expect("waits for a lock").unwrap()
}

fn micros(column: &str) -> String {
    format!("timestampdiff(microsecond, '1970-01-01', {column})")
}

fn hex(id: EventId) -> String {
    id.to_string().replace('-', "")
}

/// What an entry says: due_at, since, taken_at, run, careful, losses, who holds it.
type Entry = (i64, i64, Option<i64>, u32, u32, u32, Option<String>);

async fn entry(conn: &mut Conn, key: &str) -> Option<Entry> {
    let columns = format!(
        "select {}, {}, {}, run, careful, losses, locked_by from outbox_key where ordering_key = ?",
        micros("due_at"),
        micros("since"),
        micros("taken_at")
    );
    conn.exec_first(columns, (key,)).await.unwrap()
}

/// Holds O3: one text decides as the pure function does, entry by entry and head by head.
#[tokio::test]
async fn taking_a_key_follows_what_is_decided_of_it() {
    let heads = [
        ("none", "delete from outbox_event where ordering_key = 'a'"),
        ("in line", "do 0"),
        ("shelved", "update outbox_event set due_at = '9999-01-01'"),
        ("left out", "update outbox_event set event_type = 'other'"),
        (
            "held",
            "update outbox_event set due_at = utc_timestamp(6) + interval 90 second, locked_by = 'x'",
        ),
        (
            "held for a moment",
            "update outbox_event set due_at = utc_timestamp(6) + interval 1 second, locked_by = 'x'",
        ),
        ("delayed", "update outbox_event set due_at = utc_timestamp(6) + interval 90 second"),
        ("due", "update outbox_event set due_at = utc_timestamp(6) - interval 9 second"),
    ];
    let entries = [
        "run = 0",
        "run = 50, locked_by = 'me'",
        "run = 50, locked_by = 'gone'",
        "run = 1, locked_by = 'gone'",
        "run = 1, locked_by = 'me', losses = 1",
        "run = 1, locked_by = 'gone', losses = 1",
        "run = 1, careful = 7",
        "run = 7, locked_by = 'gone', losses = 65535, careful = 2",
    ];
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        conn.query_drop("set time_zone = '+00:00'").await.unwrap();
        for (name, head) in heads {
            for state in entries {
                for idle in ["50000", "2000000", "60000000"] {
                    let case = format!("{name}, {state}, {idle}");
                    let clean = "delete from outbox_event; delete from outbox_key";
                    conn.query_drop(clean).await.unwrap();
                    let first = row("a");
                    write(&store, &mut place.conn().await, &[first]).await;
                    conn.query_drop(head).await.unwrap();
                    let list = format!(
                        "insert into outbox_key (ordering_key, due_at, since)
                         select 'a', s.at - interval 10 microsecond, s.at - interval {idle} microsecond
                           from (select utc_timestamp(6) as at) s;
                         update outbox_key set {state}"
                    );
                    conn.query_drop(list).await.unwrap();
                    let stood = entry(&mut conn, "a").await;
                    let (_, since, _, run, careful, losses, holder) = stood.clone().unwrap();
                    let before = KeyEntry {
                        since: Timestamp::from_micros(since),
                        run,
                        careful,
                        losses,
                        lost: holder.is_some_and(|holder| holder != "me"),
                    };
                    let due_at =
                        format!("select {}, locked_by from outbox_event", micros("due_at"));
                    let due_at: Option<(i64, Option<String>)> =
                        conn.query_first(due_at).await.unwrap();
                    let head = match due_at {
                        None => Head::None,
                        Some((at, _)) if at >= IN_LINE.as_micros() && name == "left out" => {
                            Head::LeftOut
                        }
                        Some((at, _)) if at >= IN_LINE.as_micros() => Head::InLine,
                        Some((at, Some(_))) => Head::Held(Timestamp::from_micros(at)),
                        Some((at, None)) => Head::Due(Timestamp::from_micros(at)),
                    };
                    let suspect = before.is_suspect();
                    let asked =
                        TakeKeys { walk: None, except: Except::types(&["other"]), ..by("me") };
                    let (wanted, other) = match suspect {
                        true => (Suspects::Only, Suspects::Skip),
                        false => (Suspects::Skip, Suspects::Only),
                    };
                    let none = take(&store, &TakeKeys { suspects: other, ..asked }).await;
                    assert!(none.keys.is_empty() && none.put_off == 0, "{case}");
                    let taken = take(&store, &TakeKeys { suspects: wanted, ..asked }).await;
                    let after = entry(&mut conn, "a").await;
                    let terms = TakeTerms { run: 50, suspects: suspect, full: false };
                    // The server's time is what it wrote.
                    let now = match (&after, taken.next) {
                        (None, _) => Timestamp::now(),
                        (Some((due_at, ..)), Some(next)) => {
                            Timestamp::from_micros(*due_at).saturating_sub(next)
                        }
                        (Some((_, since, ..)), None) => Timestamp::from_micros(*since),
                    };
                    match order::look(&before, head, now, terms) {
                        Look::Gone => assert!(after.is_none() && taken.keys.is_empty(), "{case}"),
                        Look::Take { run, careful, losses, blame } => {
                            let (due_at, since, taken_at, runs, carefuls, lost, holder) =
                                after.unwrap();
                            let key = &taken.keys[0];
                            assert_eq!((key.run, key.lost), (run, blame), "{case}");
                            let losses = losses.min(u16::MAX.into());
                            assert_eq!((runs, carefuls, lost), (run, careful, losses), "{case}");
                            assert_eq!(taken_at, Some(key.token.taken_at().as_micros()), "{case}");
                            assert_eq!(holder.as_deref(), Some("me"), "{case}");
                            assert_eq!(due_at - since, 60_000_000, "{case}");
                            let counted = "select attempts + losses from outbox_event";
                            let counted: u32 = conn.query_first(counted).await.unwrap().unwrap();
                            assert_eq!(counted, 2 * u32::from(blame), "{case}");
                        }
                        Look::Later { at, careful } => {
                            let (due_at, since, _, run, carefuls, lost, holder) = after.unwrap();
                            assert_eq!((due_at, since), (at.as_micros(), before.since.as_micros()));
                            assert_eq!((run, carefuls, lost), (0, careful, losses), "{case}");
                            assert!(holder.is_none() && taken.put_off == 1, "{case}");
                        }
                        Look::Left { .. } => {
                            assert_eq!(after, stood, "{case}");
                            assert!(taken.keys.is_empty() && taken.put_off == 1, "{case}");
                        }
                    }
                }
            }
        }
    }
}

/// Holds I11: whatever somebody has locked, keys are taken, extended and settled past it.
#[tokio::test]
async fn nothing_that_somebody_has_locked_is_waited_for() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let rows = [row("a"), row("b"), row("c")];
        write(&store, &mut place.conn().await, &rows).await;
        let keys = take(&store, &by("gone")).await.keys;
        assert_eq!(keys.len(), 3);
        // Lost with single events, so that they are counted: b's row is locked, and a's entry.
        place.run("update outbox_key set run = 1, due_at = utc_timestamp(6)").await;
        let mut operator = place.conn().await;
        let id = hex(rows[1].event.id());
        let lock = format!(
            "begin; select 1 from outbox_key where ordering_key = 'a' for update;
             select 1 from outbox_event where event_id = unhex('{id}') for update"
        );
        operator.query_drop(lock).await.unwrap();
        let taken = take(&store, &by("node")).await;
        let names: Vec<&str> = taken.keys.iter().map(|key| &*key.key).collect();
        assert_eq!((names, taken.put_off), (vec!["c"], 1));
        assert!(taken.next.is_some_and(|next| next <= Duration::from_secs(5)));
        let counted = "select count(*) from outbox_event where losses > 0";
        assert_eq!(place.number(counted).await, 1, "nobody is blamed who was not taken");
        let lost = "select count(*) from outbox_key where ordering_key = 'b' and locked_by = 'gone'
                       and run = 1";
        assert_eq!(place.number(lost).await, 1, "whose it was is not forgotten");
        // The entry of its first holder, which is the token's still.
        let held = |at: usize| HeldKey { key: keys[at].key.clone(), token: keys[at].token };
        let asked = [held(0), held(1)];
        let extend = ExtendKeys { owner: "gone", keys: &asked, hold: HOLD };
        let extended = timeout(PROMPT, store.extend_keys(&extend));
        let extended = extended.await.expect("waits for a lock").unwrap();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        assert_eq!((extended.held, extended.busy), (vec![b.clone()], vec![a.clone()]));
        let end = |at: usize| RunEnd {
            held: held(at),
            rows: vec![(rows[at].event.id(), Outcome::Done)],
            ending: Ending::Exhausted,
        };
        let ends = [end(0), end(1), end(2)];
        let settled = timeout(PROMPT, store.settle_runs("gone", &ends));
        let settled = settled.await.expect("waits for a lock").unwrap();
        assert_eq!((settled.applied.len(), settled.busy), (0, vec![b, a]), "and c is another's");
        operator.query_drop("rollback").await.unwrap();
        let settled = store.settle_runs("gone", &[end(0), end(1)]).await.unwrap();
        assert_eq!((settled.applied.len(), settled.busy.len()), (2, 0));
    }
}

/// A letter that parks a key whose entry somebody has locked is busy, and nothing of it is changed.
#[tokio::test]
async fn a_letter_whose_key_somebody_has_locked_is_busy() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let first = row("a");
        write(&store, &mut place.conn().await, std::slice::from_ref(&first)).await;
        let key = take(&store, &by("node")).await.keys.remove(0);
        let held = HeldKey { key: key.key, token: key.token };
        let rows = vec![(first.event.id(), Outcome::dead(1, "no"))];
        let end = RunEnd { held, rows, ending: Ending::Free };
        assert_eq!(store.settle_runs("node", &[end]).await.unwrap().applied.len(), 1);
        let mut operator = place.conn().await;
        operator.query_drop("begin; select 1 from outbox_key for update").await.unwrap();
        let note = AuditNote::new("ada", "mended").unwrap();
        let deaths = [Death { id: first.event.id(), died_at: None }];
        let change = ChangeLetters { act: LetterAct::Discard, deaths: &deaths, note: &note };
        let fate = timeout(PROMPT, store.change_letters(&change)).await.expect("waits").unwrap();
        assert_eq!(fate, [LetterFate::Busy]);
        assert_eq!(place.number("select count(*) from outbox_audit").await, 0);
        operator.query_drop("rollback").await.unwrap();
        assert_eq!(store.change_letters(&change).await.unwrap(), [LetterFate::Done]);
        assert_eq!(place.number("select count(parked_by) from outbox_key").await, 0);
    }
}

/// Holds I11: a key that somebody has locked stays parked, and nobody waits; one whose dead event somebody has
/// locked goes on.
#[tokio::test]
async fn a_parked_key_that_somebody_has_locked_is_busy() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let rows = [row("a"), row("a")];
        write(&store, &mut place.conn().await, &rows).await;
        let id = rows[0].event.id();
        let key = take(&store, &by("node")).await.keys.remove(0);
        let held = HeldKey { key: key.key, token: key.token };
        let died = vec![(id, Outcome::dead(1, "no"))];
        let end = RunEnd { held, rows: died, ending: Ending::Free };
        assert_eq!(store.settle_runs("node", &[end]).await.unwrap().applied.len(), 1);
        let (mut operator, mut other) = (place.conn().await, place.conn().await);
        operator.query_drop("begin; select 1 from outbox_key for update").await.unwrap();
        let lock = format!(
            "begin; select 1 from outbox_event where event_id = unhex('{}') for update",
            hex(id)
        );
        other.query_drop(lock).await.unwrap();
        let note = AuditNote::new("ada", "mended").unwrap();
        let resume = ResumeKey { key: "a", event: None, note: &note };
        let resumed = async || {
            timeout(PROMPT, store.resume_key(&resume)).await.expect("waits for a lock").unwrap()
        };
        assert_eq!(resumed().await, KeyFate::Busy);
        assert!(store.key_standing("a").await.unwrap().parking().is_some());
        assert_eq!(place.number("select count(*) from outbox_audit").await, 0);
        operator.query_drop("rollback").await.unwrap();
        assert_eq!(resumed().await, KeyFate::Resumed { event: id });
        other.query_drop("rollback").await.unwrap();
        assert_eq!(take(&store, &by("node")).await.keys.len(), 1);
    }
}

const TAKE: &str = include_str!("../../sql/outbox/take_keys.sql");
const RUNS: &str = include_str!("../../sql/outbox/runs.sql");
const SHELVE: &str = include_str!("../../sql/outbox/shelve.sql");
const PURGE: &str = include_str!("../../sql/outbox/purge.sql");

/// The statements of a text, with values.
fn statements(file: &str, name: &str) -> Vec<String> {
    let mut text = text(file, &[name]).replace("sendoff.", "");
    for (gap, value) in [
        (":owner", "'me'"),
        (":limit", "100"),
        (":longest", "11"),
        (":last", "1000000000"),
        (":cutoff", "utc_timestamp(6)"),
        (":run", "10"),
        (":rows", "1000"),
        (":more", "1001"),
        (":hold", "60000000"),
        (":kinds", "('', '')"),
        (":types", "''"),
        (":after", "0"),
        (":age", "0"),
        (":bytes", "1000000000"),
        (":ids", "x'00000000000000000000000000000001',x'00000000000000000000000000000002'"),
        // hot, k1, k2.
        (":keys", r#"'[{"k":"686f74","r":10},{"k":"6b31","r":10},{"k":"6b32","r":10}]'"#),
    ] {
        text = text.replace(gap, value);
    }
    text.split(";\n").map(str::to_owned).collect()
}

/// Which index each table of a statement is read by; none where it is looked for key by key.
async fn indexes(conn: &mut Conn, statement: &str) -> Vec<(String, String)> {
    let _ = conn.query_drop("set explain_format = traditional").await;
    let into = statement.find("into @").map(|begin| {
        let end = statement[begin..].find("\n  from ").map_or(statement.len(), |end| begin + end);
        format!("{}{}", &statement[..begin], &statement[end..])
    });
    let plan: Vec<Row> =
        conn.query(format!("explain {}", into.as_deref().unwrap_or(statement))).await.unwrap();
    let tables = plan.iter().filter_map(|line| {
        let table: Option<String> = line.get("table").unwrap();
        let key: Option<String> = line.get("key").unwrap();
        let extra: Option<String> = line.get("Extra").unwrap();
        let extra = extra.unwrap_or_default();
        let key = match extra.contains("Range checked for each record") {
            true => "range".to_owned(),
            false => key.unwrap_or_default(),
        };
        table.filter(|table| table.len() == 1 && table != "s").map(|table| (table, key))
    });
    tables.collect()
}

/// Steps in indexes that a session took so far.
pub(crate) async fn steps(conn: &mut Conn) -> i64 {
    let from = match conn.server_version() {
        version if version >= (10, 0, 0) => "information_schema",
        _ => "performance_schema",
    };
    let status = format!(
        "select cast(sum(variable_value) as signed) from {from}.session_status
          where variable_name like 'Handler_read%'"
    );
    conn.query_first(status).await.unwrap().unwrap()
}

/// Looks walk along the index of keys, however many rows a key has and however many were delivered, also
/// where nothing is known of the tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_at_keys_cost_what_they_find() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        conn.query_drop("set session transaction isolation level read committed").await.unwrap();
        let keys = |key: &str, count| (0..count).map(|_| row(key)).collect::<Vec<_>>();
        for _ in 0..3 {
            write(&store, &mut conn, &keys("hot", 1_000)).await;
        }
        for key in 0..200 {
            write(&store, &mut conn, &keys(&format!("k{key}"), 3)).await;
        }
        let done = "update outbox_event set status = 1, due_at = null, done_at = utc_timestamp(6)
                     where ordering_key = 'hot' order by seq limit 1000";
        conn.query_drop(done).await.unwrap();
        let list = "insert into outbox_key (ordering_key, due_at, since)
                    select ordering_key, utc_timestamp(6), utc_timestamp(6) from outbox_event
                     where ordering_key like 'k1%' group by ordering_key";
        conn.query_drop(list).await.unwrap();
        let pair = |table: &str, index: &str| (table.to_owned(), index.to_owned());
        let (by_key, flows) = ("outbox_event_key", "outbox_key_flows");
        for (file, name, at, expected) in [
            (TAKE, "take_keys", 1, vec![pair("k", flows)]),
            (TAKE, "take_suspect_keys", 1, vec![pair("k", "outbox_key_suspect")]),
            (TAKE, "take_keys", 2, vec![pair("e", by_key), pair("h", by_key)]),
            (TAKE, "walk_keys", 0, vec![pair("k", "PRIMARY"), pair("e", "outbox_event_due")]),
            (TAKE, "some_keys", 0, vec![pair("k", flows), pair("e", "outbox_event_due")]),
            (RUNS, "runs", 0, vec![pair("e", by_key)]),
            (RUNS, "confirm_keys", 2, vec![pair("e", "PRIMARY"), pair("e", by_key)]),
            (SHELVE, "shelve", 0, vec![pair("k", "PRIMARY"), pair("e", "outbox_event_due")]),
            (
                PURGE,
                "purge_dead",
                0,
                vec![pair("e", "outbox_event_aside"), pair("k", "outbox_key_parked")],
            ),
        ] {
            conn.query_drop("set @sendoff_room = 10").await.unwrap();
            let mut found = indexes(&mut conn, &statements(file, name)[at]).await;
            let mut expected = expected;
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{server}: {name}, statement {at}");
        }
        let runs = statements(RUNS, "runs");
        conn.query_drop(&runs[0]).await.unwrap();
        let found = indexes(&mut conn, &runs[1]).await;
        let known = |(_, index): &(String, String)| index == by_key || index == "range";
        assert!(found.iter().any(|(_, index)| index == "range"), "{server}: {found:?}");
        assert!(found.iter().filter(|(table, _)| table == "e").all(known), "{server}: {found:?}");
        // Of the hot key ten rows are wanted, of two others three each.
        let (before, begun) = (steps(&mut conn).await, steps(&mut conn).await);
        for statement in &runs {
            conn.query_drop(statement).await.unwrap();
        }
        let taken = steps(&mut conn).await - begun - (begun - before);
        assert!(taken < 1_000, "{server}: {taken} steps");
        let (before, begun) = (steps(&mut conn).await, steps(&mut conn).await);
        for statement in &statements(TAKE, "take_keys")[..3] {
            conn.query_drop(statement).await.unwrap();
        }
        let taken = steps(&mut conn).await - begun - (begun - before);
        assert!(taken < 1_500, "{server}: {taken} steps for 100 keys");
        conn.query_drop("rollback").await.unwrap();
    }
}

/// A node that waits hears of what other processes put in line, and of keys that became due.
#[tokio::test]
async fn what_another_process_puts_in_line_is_noticed() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (store, other) = (place.store().await, place.store().await);
        // The first look knows nothing of what was there before.
        write(&other, &mut place.conn().await, &[row("a")]).await;
        timeout(Duration::from_secs(10), store.rung()).await.expect("it is in line");
        write(&other, &mut place.conn().await, &[row("a")]).await;
        timeout(Duration::from_secs(10), store.rung()).await.expect("another one");
        let list = "insert into outbox_key (ordering_key, due_at, since)
                    values ('z', utc_timestamp(6), utc_timestamp(6))";
        place.run(list).await;
        timeout(Duration::from_secs(10), store.rung()).await.expect("a key is due");
    }
}

/// Holds I8, attack 3: also with its partition.
#[tokio::test]
async fn no_partition_is_dropped_with_an_event_that_parks_its_key() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let layout = Layout::Partitioned(Period::Day);
        let store = place.store_with(MysqlOptions { layout, ..MysqlOptions::default() }).await;
        let rows = [row("a"), row("b")];
        write(&store, &mut place.conn().await, &rows).await;
        let keys = take(&store, &by("node")).await.keys;
        let ends: Vec<RunEnd> = keys
            .into_iter()
            .zip(&rows)
            .map(|(key, row)| RunEnd {
                held: HeldKey { key: key.key, token: key.token },
                rows: vec![(row.event.id(), Outcome::dead(1, "no"))],
                ending: Ending::Free,
            })
            .collect();
        assert_eq!(store.settle_runs("node", &ends).await.unwrap().applied.len(), 2);
        let name = "select partition_name from information_schema.partitions
                     where table_schema = database() and table_name = 'outbox_event'
                       and partition_ordinal_position = 1";
        let name: String = place.conn().await.query_first(name).await.unwrap().unwrap();
        let text = text(include_str!("../../sql/outbox/partition_end.sql"), &["partition_end"])
            .replace("sendoff.", "")
            .replace(":partition", &name)
            .replace(":seconds", "5")
            .replace(":drop_dead", "1")
            .replace(":drop", &format!("'alter table outbox_event drop partition {name}'"));
        let left = async || -> i64 {
            let mut conn = place.conn().await;
            let mut results = conn.query_iter(&text).await.unwrap();
            let mut left = -1;
            while !results.is_empty() {
                let rows: Vec<Row> = results.collect().await.unwrap();
                left = rows.first().map_or(left, |row| row.get(0).unwrap());
            }
            left
        };
        assert_eq!(left().await, 2, "{server}: both park their keys");
        place.run("update outbox_key set parked_by = null where ordering_key = 'a'").await;
        assert_eq!(left().await, 2, "{server}: one does");
        place.run("delete from outbox_key").await;
        assert_eq!(left().await, 0, "{server}: neither does");
        assert_eq!(place.rows().await, 0);
    }
}

/// How late rows in line are is told from when they were written, never from a year that is no time.
#[tokio::test]
async fn a_row_in_line_is_late_since_it_was_written() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        write(&store, &mut place.conn().await, &[row("a")]).await;
        let old = "update outbox_event set created_at = utc_timestamp(6) - interval 100 second";
        place.run(old).await;
        let late = store.lateness().await.unwrap();
        let about = Duration::from_secs(99)..Duration::from_secs(130);
        assert!(about.contains(&late.oldest) && about.contains(&late.overdue), "{late:?}");
        assert_eq!(take(&store, &by("node")).await.keys.len(), 1);
        let late = store.lateness().await.unwrap();
        assert!(about.contains(&late.oldest) && late.overdue.is_zero(), "it is taken: {late:?}");
        let shown = "select count(*) from outbox_event_json where due_at is null";
        assert_eq!(place.number(shown).await, 1);
    }
}

/// What other languages write is in line like everything else.
#[tokio::test]
async fn what_is_emitted_with_a_key_is_in_line() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        place
            .run(
                r#"call sendoff_emit('t', '1', '{"ordering_key": "a"}', @id);
                   call sendoff_emit('t', '1', '{"ordering_key": "b", "delay_seconds": 90}', @id);
                   call sendoff_emit('t', '1', null, @id)"#,
            )
            .await;
        let keys = take(&store, &by("node")).await.keys;
        assert!(keys.len() == 1 && &*keys[0].key == "a", "{keys:?}");
        let wanted = RunsWanted { keys: &keys, bytes: usize::MAX };
        assert_eq!(store.runs(&wanted).await.unwrap()[0].rows.len(), 1);
        let delayed = "select count(*) from outbox_event where delayed_until is not null";
        assert_eq!(place.number(delayed).await, 1);
    }
}

/// The order in which events of each key were first begun.
#[derive(Debug, Default)]
struct Begun(Mutex<BTreeMap<String, Vec<EventId>>>);

impl Begun {
    fn begin(&self, key: &str, id: EventId) {
        let mut begun = self.0.lock().unwrap();
        let begun = begun.entry(key.to_owned()).or_default();
        if !begun.contains(&id) {
            begun.push(id);
        }
    }
}

/// Takes keys, runs their events and settles them, and now and then vanishes, fails or shelves, until it is told
/// to end.
async fn work(store: MysqlStore, owner: String, begun: Arc<Begun>, over: Arc<AtomicBool>) {
    let hold = Duration::from_millis(400);
    while !over.load(Ordering::Relaxed) {
        // Who vanished with a single event twice is a suspect.
        let suspects = if fastrand::u8(..4) == 0 { Suspects::Only } else { Suspects::Skip };
        let asked = TakeKeys { limit: 7, run: 5, hold, suspects, ..by(&owner) };
        let taken = store.take_keys(&asked).await.unwrap();
        if let Some(Walked { last: Some(last), .. }) = taken.walked
            && fastrand::u8(..) < 60
        {
            let window = Window { after: 0, last };
            store.shelve(window, Duration::from_millis(50)).await.unwrap();
        }
        let wanted = RunsWanted { keys: &taken.keys, bytes: usize::MAX };
        let mut ends = Vec::new();
        for (key, run) in taken.keys.iter().zip(store.runs(&wanted).await.unwrap()) {
            let chance = fastrand::u8(..);
            if chance < 12 {
                // Gone, in the middle of it.
                run.rows.iter().take(2).for_each(|row| begun.begin(&key.key, row.id));
                continue;
            }
            let mut rows = Vec::new();
            let mut ending = if run.whole { Ending::Exhausted } else { Ending::Free };
            for row in &run.rows {
                begun.begin(&key.key, row.id);
                if fastrand::u8(..) < 12 {
                    let delay = Duration::from_millis(20);
                    let error = "not yet".to_owned();
                    rows.push((row.id, Outcome::Retry { delay, attempts: 1, error }));
                    ending = Ending::After(delay);
                    break;
                }
                rows.push((row.id, Outcome::Done));
            }
            let held = HeldKey { key: key.key.clone(), token: key.token };
            ends.push(RunEnd { held, rows, ending });
        }
        loop {
            let busy = store.settle_runs(&owner, &ends).await.unwrap().busy;
            ends.retain(|end| busy.contains(&end.held.key));
            if ends.is_empty() {
                break;
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Holds O1, O4, attacks 7, 8, 9, 12 and 21: several nodes, of which holders vanish, and writers who take turns for
/// each key.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_vanishes_first_runs_are_in_order_and_everything_is_delivered() {
    for (server, layout) in [
        (MARIADB, Layout::Flat),
        (MARIADB, Layout::Partitioned(Period::Day)),
        (MYSQL, Layout::Flat),
    ] {
        let place = Place::on(server).await;
        let options = MysqlOptions { layout, ..MysqlOptions::default() };
        let store = place.store_with(options.clone()).await;
        let (begun, over) = (Arc::<Begun>::default(), Arc::<AtomicBool>::default());
        let mut workers = JoinSet::new();
        for node in 0..3 {
            let store = MysqlStore::connect_with(&place.url, options.clone()).await.unwrap();
            workers.spawn(work(store, format!("node {node}"), begun.clone(), over.clone()));
        }
        // Each has keys of its own, so that the events of a key are written one after the other.
        let mut writers = JoinSet::new();
        for writer in 0..3 {
            let (store, mut conn) = (store.clone(), place.conn().await);
            writers.spawn(async move {
                let mut written = Vec::new();
                for _ in 0..60 {
                    let key = |_| format!("{writer} {}", fastrand::u8(..6));
                    let rows: Vec<NewRow> = (0..3).map(key).map(|key| row(&key)).collect();
                    write(&store, &mut conn, &rows).await;
                    written.extend(rows.into_iter().map(|row| row.event));
                }
                written
            });
        }
        let mut written: BTreeMap<String, Vec<EventId>> = BTreeMap::new();
        for event in writers.join_all().await.into_iter().flatten() {
            let key = event.ordering_key().unwrap().to_owned();
            written.entry(key).or_default().push(event.id());
        }
        let done = async || store.counts().await.unwrap().pending() == 0;
        within(MINUTES, "everything is delivered", done).await;
        let empty = async || place.number("select count(*) from outbox_key").await == 0;
        within(MINUTES, "no key is listed", empty).await;
        over.store(true, Ordering::Relaxed);
        workers.join_all().await;
        assert_eq!(*begun.0.lock().unwrap(), written, "{server}");
    }
}
