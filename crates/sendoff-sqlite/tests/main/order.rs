//! Order within a key on SQLite, beyond the suite that every store passes: plans, locks, other writers.

use std::time::Duration;

use rusqlite::named_params;
use sendoff_core::order::{Ending, is_in_line};
use sendoff_core::{Event, EventId, Ident};
use sendoff_engine::capture::{BeginBlocking, CommitBlocking};
use sendoff_engine::store::frame::text;
use sendoff_engine::store::{
    Birth, Cutoff, Except, HeldKey, InspectStore, KeyRun, KeyStore, NewRow, Outcome, Purge,
    RetainStore, RunEnd, RunsWanted, StoreError, Suspects, TakeKeys, TakenKey, TakenKeys,
    WakeStore, WalkFrom, Window,
};
use sendoff_sqlite::{SqliteOptions, SqliteStore};
use sendoff_testkit::guide::block;

use crate::outbox::{HOLD, Outbox, due, held};

fn event(key: &str) -> Event {
    Event::builder("order.changed").ordering_key(key).bytes("x").build().unwrap()
}

fn in_line(key: &str) -> NewRow {
    NewRow { event: event(key), birth: Birth::Due }
}

fn take(owner: &str) -> TakeKeys<'_> {
    TakeKeys {
        owner,
        limit: 100,
        run: 10,
        hold: HOLD,
        except: Except::NOTHING,
        suspects: Suspects::Skip,
        walk: Some(WalkFrom { after: 0, rows: 1_000 }),
    }
}

async fn taken(store: &SqliteStore, owner: &str) -> TakenKeys {
    store.take_keys(&take(owner)).await.unwrap()
}

async fn take_one(store: &SqliteStore, owner: &str) -> TakenKey {
    let mut keys = taken(store, owner).await.keys;
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.remove(0)
}

async fn run(store: &SqliteStore, key: &TakenKey) -> KeyRun {
    let keys = std::slice::from_ref(key);
    store.runs(&RunsWanted { keys, bytes: usize::MAX }).await.unwrap().remove(0)
}

/// Whether the end was carried out.
async fn end(
    store: &SqliteStore,
    owner: &str,
    key: &TakenKey,
    rows: &[(EventId, Outcome)],
    ending: Ending,
) -> bool {
    let held = HeldKey { key: key.key.clone(), token: key.token };
    let end = RunEnd { held, rows: rows.to_vec(), ending };
    let settled = store.settle_runs(owner, &[end]).await.unwrap();
    assert!(settled.busy.is_empty(), "nothing is ever busy here");
    !settled.applied.is_empty()
}

/// Holds S6: looks at keys walk the live rows of a key and the keys that are due, however many others there
/// are.
#[tokio::test]
async fn looks_at_keys_walk_their_indexes() {
    const TAKE: &str = include_str!("../../sql/outbox/take_keys.sql");
    const END: &str = include_str!("../../sql/outbox/end_key.sql");
    const CONFIRM: &str = include_str!("../../sql/outbox/confirm_key.sql");
    const LOOK: &str = include_str!("../../sql/outbox/look.sql");
    const PARK: &str = include_str!("../../sql/outbox/park.sql");
    const STATEMENTS: [(&str, &str, &[&str]); 14] = [
        ("keys_due", TAKE, &["outbox_key_due"]),
        ("keys_suspect", TAKE, &["outbox_key_suspect"]),
        ("key_head", TAKE, &["outbox_event_key (ordering_key=?)"]),
        ("key_walk", TAKE, &["outbox_event_due (due_at=? AND seq>?)", "PRIMARY KEY"]),
        ("run", include_str!("../../sql/outbox/run.sql"), &["outbox_event_key (ordering_key=?)"]),
        ("confirm_below", CONFIRM, &["outbox_event_key (ordering_key=? AND seq<?)"]),
        (
            "shelve",
            include_str!("../../sql/outbox/shelve.sql"),
            &["outbox_event_due (due_at=? AND seq>? AND seq<?)", "PRIMARY KEY"],
        ),
        ("parked_keys", PARK, &["PRIMARY KEY (ordering_key>?)"]),
        (
            "key_standing",
            PARK,
            &["outbox_event_key (ordering_key=?)", "PRIMARY KEY (ordering_key=?)", "(event_id=?)"],
        ),
        ("audit_key", PARK, &["(event_id=?)"]),
        ("keys_rescue", END, &["outbox_key_due (due_at>?)"]),
        (
            "look",
            LOOK,
            &["outbox_event_due (due_at<?)", "outbox_event_due (due_at=?)", "outbox_key_due"],
        ),
        (
            "next_due",
            LOOK,
            &["outbox_event_due (due_at>? AND due_at<?)", "outbox_key_due (due_at>?)"],
        ),
        (
            "purge_delete",
            include_str!("../../sql/outbox/purge_delete.sql"),
            &["INTEGER PRIMARY KEY (rowid=?)", "PRIMARY KEY (ordering_key=?)"],
        ),
    ];
    let outbox = Outbox::new().await;
    let conn = outbox.store.connect().unwrap();
    let check = |when: &str| {
        for (name, file, steps) in STATEMENTS {
            let plan: Vec<String> = conn
                .prepare(&format!("explain query plan {}", text(file, &[name])))
                .unwrap()
                .raw_query()
                .mapped(|row| row.get("detail"))
                .collect::<Result<_, _>>()
                .unwrap();
            for step in steps {
                let found = plan.iter().any(|line| line.contains(step));
                assert!(found, "{when}, {name}: {step} in {plan:#?}");
            }
            let sorted = plan.iter().any(|line| line.contains("TEMP B-TREE FOR ORDER"));
            assert!(!sorted, "{when}, {name}: {plan:#?}");
            let scanned =
                plan.iter().find(|line| line.contains("SCAN outbox") && !line.contains("INDEX"));
            assert_eq!(scanned, None, "{when}, {name}");
        }
    };
    check("empty");
    outbox.write(&(0..500).map(|n| in_line(&format!("{}", n % 20))).collect::<Vec<_>>());
    outbox.write(&(0..500).map(|_| due()).collect::<Vec<_>>());
    outbox.execute("update outbox_event set status = 1, done_at = created_at where seq % 10 > 2");
    taken(&outbox.store, "a").await;
    check("many done rows and held keys");
    conn.execute_batch("analyze").unwrap();
    check("with statistics");
}

/// An idle look must not wait for the application's writes, nor delay them.
#[tokio::test]
async fn a_look_that_finds_nothing_takes_no_lock() {
    let patience = Duration::from_millis(1);
    let outbox = Outbox::with(SqliteOptions { busy_timeout: patience, ..Default::default() }).await;
    outbox.write(&[in_line("held"), in_line("held")]);
    let held = take_one(&outbox.store, "a").await;
    let mut conn = outbox.store.connect().unwrap();
    let writes = outbox.store.begin_blocking(&mut conn).unwrap();
    let idle = taken(&outbox.store, "a").await;
    let walked = idle.walked.unwrap();
    assert!(idle.keys.is_empty() && (walked.rows, walked.listed, walked.end) == (2, 2, true));
    let suspects = TakeKeys { suspects: Suspects::Only, ..take("a") };
    assert!(outbox.store.take_keys(&suspects).await.unwrap().walked.is_none());
    assert_eq!(run(&outbox.store, &held).await.rows.len(), 2);
    let window = Window { after: 0, last: i64::MAX };
    assert_eq!(outbox.store.shelve(window, HOLD).await.unwrap(), 0);
    assert!(outbox.store.confirm_keys(&[]).await.unwrap().is_empty());
    // What has something to take would write, and is told that it cannot just now.
    drop(writes);
    outbox.write(&[in_line("free")]);
    let writes = outbox.store.begin_blocking(&mut conn).unwrap();
    let refused = outbox.store.take_keys(&take("a")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    drop(writes);
    assert_eq!(&*take_one(&outbox.store, "a").await.key, "free");
}

/// Holds S6: takes of several processes at once share the keys out, and none is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takes_of_several_stores_at_once_share_the_keys_out() {
    let outbox = Outbox::new().await;
    outbox.write(&(0..300).map(|n| in_line(&format!("{}", n % 100))).collect::<Vec<_>>());
    let mut takers = tokio::task::JoinSet::new();
    for owner in ["a", "b", "c"] {
        let store = outbox.again().await;
        takers.spawn(async move {
            let mut delivered = Vec::new();
            loop {
                let take = TakeKeys { limit: 7, run: 2, ..take(owner) };
                let keys = store.take_keys(&take).await.unwrap().keys;
                if keys.is_empty() {
                    return delivered;
                }
                for key in keys {
                    let run = run(&store, &key).await;
                    let done: Vec<_> = run.rows.iter().map(|row| (row.id, Outcome::Done)).collect();
                    delivered.extend(done.iter().map(|(id, _)| *id));
                    let ending = if run.whole { Ending::Exhausted } else { Ending::Free };
                    assert!(end(&store, owner, &key, &done, ending).await);
                }
            }
        });
    }
    let mut all: Vec<EventId> = takers.join_all().await.concat();
    assert_eq!(all.len(), 300);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 300, "none was delivered twice");
    let entries = "select count(*) from outbox_key";
    let conn = outbox.store.connect().unwrap();
    assert_eq!(conn.query_row(entries, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

/// A clock that stepped back hands no token out twice, and holds no key for ever.
#[tokio::test]
async fn a_clock_that_stepped_back_holds_no_key_for_ever() {
    use sendoff_engine::store::ClaimStore;
    let outbox = Outbox::new().await;
    outbox.write(&[in_line("k")]);
    let first = take_one(&outbox.store, "a").await;
    outbox.clock.step_back(Duration::from_secs(3_600));
    assert!(taken(&outbox.store, "b").await.keys.is_empty());
    assert_eq!(outbox.store.rescue(HOLD).await.unwrap(), 1, "its row was written ahead of time");
    let second = take_one(&outbox.store, "a").await;
    assert!(second.token > first.token);
    assert!(!end(&outbox.store, "a", &first, &[], Ending::Free).await);
    assert!(end(&outbox.store, "a", &second, &[], Ending::Free).await);
}

/// Nothing that is stored may stop the delivery of others: a key that nobody can read is no event's.
#[tokio::test]
async fn a_row_whose_key_cannot_be_read_is_claimed_by_itself_and_dead() {
    let outbox = Outbox::new().await;
    let rows = [in_line("bad"), in_line("good")];
    outbox.write(&rows);
    let bad = "update outbox_event set ordering_key = cast(x'ff' as text) where seq = 1";
    assert_eq!(outbox.execute(bad), 1);
    assert_eq!(&*take_one(&outbox.store, "a").await.key, "good");
    let claimed = outbox.claim_one("a").await;
    assert_eq!(claimed.id, rows[0].event.id());
    assert_eq!(claimed.event.as_ref().unwrap_err().field, "ordering_key");
    assert!(outbox.settle(held(&claimed), Outcome::dead(1, "unreadable")).await);
    outbox.clock.advance(HOLD);
    assert_eq!(&*take_one(&outbox.store, "b").await.key, "good", "nothing else is there");
}

/// Nor may a trigger of somebody's.
#[tokio::test]
async fn a_row_that_cannot_be_changed_keeps_no_walk_and_no_take_from_the_others() {
    let outbox = Outbox::new().await;
    let rows = [in_line("a"), in_line("a"), in_line("b")];
    outbox.write(&rows);
    outbox.execute(
        "create trigger no_change before update on outbox_event when old.seq = 1
         begin select raise(abort, 'told to refuse'); end",
    );
    let one = TakeKeys { run: 1, ..take("node") };
    assert_eq!(outbox.store.take_keys(&one).await.unwrap().keys.len(), 2);
    outbox.clock.advance(HOLD);
    let window = Window { after: 0, last: i64::MAX };
    let shelved = outbox.store.shelve(window, Duration::from_secs(1)).await.unwrap();
    assert_eq!(shelved, 2, "all but the one");
    let again = taken(&outbox.store, "other").await.keys;
    assert!(again.len() == 2 && again.iter().all(|key| key.lost), "{again:?}");
    assert_eq!(outbox.row(rows[0].event.id()).await.attempts, 0, "it cannot be counted");
    assert_eq!(outbox.row(rows[2].event.id()).await.attempts, 1);
}

/// What waits for a person is kept, and its key waits with it.
#[tokio::test]
async fn a_dead_event_that_parks_its_key_is_not_purged_between_two_looks() {
    let outbox = Outbox::new().await;
    let rows = [in_line("k")];
    outbox.write(&rows);
    let key = take_one(&outbox.store, "a").await;
    let dead = Outcome::dead(1, "no");
    assert!(end(&outbox.store, "a", &key, &[(rows[0].event.id(), dead)], Ending::Free).await);
    outbox.clock.advance(HOLD);
    let purge = Purge { cutoff: Cutoff::Age(Duration::ZERO), limit: 10, dead: true };
    assert_eq!(outbox.store.purgeable(&purge).await.unwrap().dead, 0);
    assert_eq!(outbox.store.purge(&purge).await.unwrap().dead, 0);
    // As if it had parked only after it was found.
    let conn = outbox.store.connect().unwrap();
    let delete = text(include_str!("../../sql/outbox/purge_delete.sql"), &["purge_delete"]);
    assert_eq!(conn.execute(&delete, (1, i64::MAX, 3)).unwrap(), 0);
    outbox.execute("delete from outbox_key");
    assert_eq!(outbox.store.purge(&purge).await.unwrap().dead, 1);
}

/// Holds I7: what another process puts in line is heard of as soon as anything else, and so is a key that is
/// due again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_in_line_of_others_ring() {
    let outbox = Outbox::new().await;
    let other = outbox.again().await;
    let soon = |rung| tokio::time::timeout(Duration::from_secs(20), rung);
    let (rung, ()) = tokio::join!(soon(outbox.store.rung()), async {
        // Written once somebody listens, or before: it is heard either way.
        tokio::task::yield_now().await;
        outbox.write(&[in_line("k")]);
    });
    rung.expect("a row in line rings");
    let key = take_one(&other, "b").await;
    let (rung, freed) = tokio::join!(
        soon(outbox.store.rung()),
        end(&other, "b", &key, &[], Ending::After(Duration::ZERO)),
    );
    assert!(freed);
    rung.expect("a key that is due rings");
}

/// Holds P5: a row in line is as late as it is old, and what its due time says is no time.
#[tokio::test]
async fn rows_in_line_are_late_since_they_were_created() {
    let outbox = Outbox::new().await;
    outbox.write(&[in_line("a"), in_line("b")]);
    outbox.clock.advance(Duration::from_secs(3));
    let late = outbox.store.lateness().await.unwrap();
    assert_eq!((late.oldest.as_secs(), late.overdue.as_secs()), (3, 3));
    let keys = taken(&outbox.store, "a").await.keys;
    let late = outbox.store.lateness().await.unwrap();
    assert_eq!((late.oldest.as_secs(), late.overdue.as_secs()), (3, 0), "held is not due");
    for key in &keys {
        assert!(end(&outbox.store, "a", key, &[], Ending::Free).await);
    }
    outbox.clock.advance(Duration::from_secs(2));
    let late = outbox.store.lateness().await.unwrap();
    assert_eq!((late.oldest.as_secs(), late.overdue.as_secs()), (5, 2), "since its key is due");
    let now = outbox.store.first_due().await.unwrap();
    assert!(!is_in_line(now));
    let id = outbox.store.peek(1).await.unwrap()[0].event.id();
    let record = sendoff_engine::store::LetterStore::record(
        &outbox.store,
        id,
        sendoff_engine::store::PayloadWanted::No,
    );
    assert_eq!(record.await.unwrap().unwrap().due_at, None);
}

/// What was pending before the migration is put in line as it becomes due, in its place.
#[tokio::test]
async fn rows_of_an_older_version_are_put_in_line_by_whoever_claims_them() {
    let outbox = Outbox::new().await;
    let rows = [in_line("k"), in_line("k")];
    outbox.write(&rows);
    outbox.execute("update outbox_event set due_at = created_at where seq = 1");
    let claimed = outbox.claim_one("a").await;
    assert_eq!(claimed.id, rows[0].event.id());
    assert!(outbox.settle(held(&claimed), Outcome::Released).await);
    let key = take_one(&outbox.store, "a").await;
    let ids: Vec<_> = run(&outbox.store, &key).await.rows.iter().map(|row| row.id).collect();
    assert_eq!(ids, rows.map(|row| row.event.id()));
}

/// Programs in other languages put what has a key in line, unless it is delayed.
#[tokio::test]
async fn the_statement_of_the_guide_puts_in_line() {
    let outbox = Outbox::new().await;
    let conn = outbox.store.connect().unwrap();
    let emit = |id: u8, key: Option<&str>, delay: Option<i64>| {
        let params = named_params! {
            ":event_id": [id; 16], ":event_type": "t", ":aggregate_type": None::<&str>,
            ":aggregate_id": None::<&str>, ":tenant_id": None::<&str>, ":ordering_key": key,
            ":shard": 0, ":content_type": None::<&str>, ":headers": None::<&str>,
            ":payload": b"1", ":delay_seconds": delay,
        };
        assert_eq!(conn.execute(&block("other-languages.md", "sql sqlite"), params).unwrap(), 1);
    };
    emit(1, Some("k"), None);
    emit(2, Some("k"), Some(0));
    emit(3, Some("k"), Some(90));
    emit(4, None, None);
    for (id, expected) in [(1, true), (2, true), (3, false), (4, false)] {
        let row = outbox.row(EventId::from_bytes([id; 16])).await;
        assert_eq!(is_in_line(row.due_at), expected, "{id}");
        assert_eq!(row.delayed_until.is_some(), id == 3, "{id}");
    }
    let key = take_one(&outbox.store, "a").await;
    let run = run(&outbox.store, &key).await;
    assert_eq!((run.rows.len(), run.whole), (2, false), "the delayed one cuts it");
}

/// Holds W6.
#[tokio::test]
async fn outboxes_with_different_prefixes_have_keys_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("outbox.db");
    let plain = SqliteStore::open(&path).await.unwrap();
    let prefix = Some(Ident::new("outbox_key_").unwrap());
    let options = SqliteOptions { prefix, ..Default::default() };
    let billing = SqliteStore::open_with(&path, options).await.unwrap();
    let mut conn = billing.connect().unwrap();
    let tx = billing.begin_blocking(&mut conn).unwrap();
    billing.commit_blocking(tx, &[in_line("k")]).unwrap();
    assert!(taken(&plain, "a").await.keys.is_empty());
    assert_eq!(&*take_one(&billing, "a").await.key, "k");
}
