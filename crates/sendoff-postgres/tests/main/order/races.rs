//! Two sessions in each other's way (ORDER §11), and what is locked by somebody else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::order::{Ending, IN_LINE, KeyFate};
use sendoff_core::{AuditNote, LetterAct, LetterFate, Status};
use sendoff_engine::DeadLetters;
use sendoff_engine::store::{
    Birth, ClaimStore, Cutoff, Except, ExtendKeys, Held, InspectStore, KeyStore, NewRow, Outcome,
    ParkStore, Purge, ResumeKey, RetainStore, RunsWanted, SettleStore, Settlement, TakeKeys,
    WalkFrom, Window,
};
use sendoff_postgres::PostgresStore;

use super::*;
use crate::place::settle_one;

/// Nothing here may wait for what somebody else has locked; the server would say no after a second.
const AT_ONCE: Duration = Duration::from_millis(900);

#[tokio::test]
async fn a_run_ends_at_what_is_not_in_line_and_at_what_was_asked_for() {
    let place = Place::new();
    let store = place.store().await;
    let id = written(&place, &store, &["a"; 6]).await;
    place
        .run(&format!("update outbox_event set due_at = now() where event_id = '{}'", id[4]))
        .await;
    let key = take_one(&store, "n").await;
    let run = run_of(&store, &key).await;
    assert_eq!((ids(&run.rows), run.whole), (id[..4].to_vec(), false), "cut at the fifth");
    let run = run_of(&store, &TakenKey { run: 2, ..key.clone() }).await;
    assert_eq!((ids(&run.rows), run.whole), (id[..2].to_vec(), false));
    let keys = std::slice::from_ref(&key);
    let runs = store.runs(&RunsWanted { keys, bytes: 2 }).await.unwrap();
    assert_eq!((ids(&runs[0].rows), runs[0].whole), (id[..2].to_vec(), false), "a byte each");
    let runs = store.runs(&RunsWanted { keys, bytes: 0 }).await.unwrap();
    assert_eq!(ids(&runs[0].rows), id[..1], "always the first");
    place
        .run(&format!("update outbox_event set due_at = now() where event_id = '{}'", id[0]))
        .await;
    let run = run_of(&store, &key).await;
    assert!(run.rows.is_empty() && !run.whole, "its first one is not in line");
    place.run("delete from outbox_event").await;
    let run = run_of(&store, &key).await;
    assert!(run.rows.is_empty() && run.whole, "there is none");
}

/// Attack 21: each key is one walk's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn walks_beside_each_other_share_nothing() {
    let place = Place::new();
    let store = place.store().await;
    let names: Vec<String> = (0..200).map(|n| format!("key {}", n * 7919 % 200)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    written(&place, &store, &names).await;
    let mut tasks = Vec::new();
    for node in 0..4 {
        let store = PostgresStore::connect_with(&place.url, place.options()).await.unwrap();
        tasks.push(tokio::spawn(async move {
            let owner = format!("n{node}");
            let mut all = Vec::new();
            loop {
                let limit = TakeKeys { limit: 17, ..taking(&owner) };
                let taken = store.take_keys(&limit).await.unwrap();
                if taken.keys.is_empty() && taken.walked.is_some_and(|walked| walked.end) {
                    return all;
                }
                all.extend(taken.keys.into_iter().map(|key| key.key));
            }
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    let taken = all.len();
    all.dedup();
    assert_eq!((taken, all.len()), (200, 200));
}

#[tokio::test]
async fn a_walk_says_how_far_it_came() {
    let place = Place::new();
    let store = place.store().await;
    written(&place, &store, &["a", "a", "b", "c", "d"]).await;
    let seq = "select seq from outbox_event order by seq offset";
    let last = |nth: i64| place.number(Box::leak(format!("{seq} {nth} limit 1").into_boxed_str()));
    let walk = |after, rows, limit| TakeKeys {
        limit,
        walk: Some(WalkFrom { after, rows }),
        ..taking("n")
    };
    let taken = store.take_keys(&walk(0, 1_000, 2)).await.unwrap();
    let walked = taken.walked.unwrap();
    assert_eq!((taken.keys.len(), walked.rows, walked.listed, walked.end), (2, 3, 0, false));
    assert_eq!(walked.last, Some(last(2).await));
    let taken = store.take_keys(&walk(0, 4, 2)).await.unwrap();
    let walked = taken.walked.unwrap();
    assert_eq!((taken.keys.len(), walked.rows, walked.listed, walked.end), (1, 4, 3, false));
    let taken = store.take_keys(&walk(last(3).await, 1, 2)).await.unwrap();
    let walked = taken.walked.unwrap();
    assert_eq!((taken.keys.len(), walked.rows, walked.end), (1, 1, true));
    let none = store.take_keys(&walk(last(4).await, 1, 2)).await.unwrap().walked.unwrap();
    assert_eq!((none.last, none.rows, none.end), (None, 0, true));
    let kind = ["t"];
    place.run("delete from outbox_key").await;
    let except = TakeKeys { except: Except::types(&kind), ..taking("n") };
    let taken = store.take_keys(&except).await.unwrap();
    assert_eq!((taken.keys.len(), taken.walked.unwrap().rows), (0, 5), "left out");
}

/// Holds I11: an entry or a row that somebody has locked is busy, and nothing of its key is changed.
#[tokio::test]
async fn what_is_locked_is_busy_and_nobody_waits() {
    let place = Place::new();
    let store = place.store().await;
    let id = written(&place, &store, &["a", "a", "b"]).await;
    let keys = take(&store, "n").await.keys;
    let of_key = |name: &str| keys.iter().find(|key| &*key.key == name).unwrap();
    let both = [
        ends(of_key("a"), done(&id[..2]), Ending::Exhausted),
        ends(of_key("b"), done(&id[2..]), Ending::Exhausted),
    ];
    let row = format!("select from outbox_event where event_id = '{}' for update", id[1]);
    let entry = "select from outbox_key where ordering_key = 'a' for update".to_owned();
    for locked in [row, entry.clone()] {
        let began = Instant::now();
        let locker = beside(&place, &locked).await;
        let settled = store.settle_runs("n", &both[..1]).await.unwrap();
        assert_eq!((settled.applied.len(), settled.busy.len()), (0, 1));
        assert!(began.elapsed() < AT_ONCE);
        locker.batch_execute("rollback").await.unwrap();
        assert_eq!(store.find(id[0]).await.unwrap().unwrap().status, Status::New);
    }
    let began = Instant::now();
    let locker = beside(&place, &entry).await;
    let settled = store.settle_runs("n", &both).await.unwrap();
    assert_eq!((&*settled.applied[0], &*settled.busy[0]), ("b", "a"));
    let held = [held(of_key("a"))];
    let extend = ExtendKeys { owner: "n", keys: &held, hold: HOLD };
    assert_eq!(store.extend_keys(&extend).await.unwrap().busy.len(), 1);
    let window = Window { after: 0, last: i64::MAX };
    assert_eq!(store.shelve(window, Duration::ZERO).await.unwrap(), 0);
    assert!(take(&store, "m").await.keys.is_empty());
    assert!(began.elapsed() < AT_ONCE);
    locker.batch_execute("update outbox_key set due_at = now() - interval '1 s'").await.unwrap();
    assert!(take(&store, "m").await.keys.is_empty(), "due, and locked");
    locker.batch_execute("rollback").await.unwrap();
    assert!(applied(&settle(&store, "n", both[0].clone()).await));
}

/// Attack 3: neither cleanup nor the loss of its holder lets anything past a dead event.
#[tokio::test]
async fn a_dead_event_parks_its_key_until_somebody_decides() {
    for act in [LetterAct::Requeue, LetterAct::Discard] {
        let place = Place::new();
        let store = place.store().await;
        let id = written(&place, &store, &["a", "a"]).await;
        let key = take_one(&store, "n").await;
        let dead = vec![(id[0], Outcome::dead(3, "no"))];
        assert!(applied(&settle(&store, "n", ends(&key, dead, Ending::Exhausted)).await));
        lapse(&place).await;
        assert!(take(&store, "m").await.keys.is_empty());
        let all = Purge { cutoff: Cutoff::Age(Duration::ZERO), limit: 10, dead: true };
        assert_eq!(store.purgeable(&all).await.unwrap().dead, 0);
        assert_eq!(store.purge(&all).await.unwrap().dead, 0, "its key waits for it");

        let letters = DeadLetters::new(Arc::new(store.clone()));
        let note = AuditNote::new("ada", "mended").unwrap();
        let change = async || match act {
            LetterAct::Requeue => letters.requeue(&id[..1], &note).await.unwrap()[0].1,
            LetterAct::Discard => letters.discard(&id[..1], &note).await.unwrap()[0].1,
        };
        let locker = beside(&place, "select from outbox_key for update").await;
        assert_eq!(change().await, LetterFate::Busy, "whoever looks at the key comes first");
        locker.batch_execute("rollback").await.unwrap();
        assert_eq!(change().await, LetterFate::Done);
        let key = take_one(&store, "m").await;
        let left = match act {
            LetterAct::Requeue => &id[..],
            LetterAct::Discard => &id[1..],
        };
        let run = run_of(&store, &key).await;
        assert_eq!(ids(&run.rows), left);
        let ended = ends(&key, done(left), Ending::Exhausted);
        assert!(applied(&settle(&store, "m", ended).await));
        assert_eq!(entries(&place).await, 0);
    }
}

/// Holds I11: a key that somebody has locked stays parked, and nobody waits.
#[tokio::test]
async fn a_parked_key_that_somebody_has_locked_is_busy() {
    let place = Place::new();
    let store = place.store().await;
    let id = written(&place, &store, &["a", "a"]).await;
    let key = take_one(&store, "n").await;
    let died = ends(&key, vec![(id[0], Outcome::dead(3, "no"))], Ending::Free);
    assert!(applied(&settle(&store, "n", died).await));
    let note = AuditNote::new("ada", "mended").unwrap();
    let resume = ResumeKey { key: "a", event: Some(id[0]), note: &note };
    // Whoever has the dead row locked is in nobody's way.
    let row = beside(&place, "select from outbox_event where status = 3 for update").await;
    let locker = beside(&place, "select from outbox_key for update").await;
    let began = Instant::now();
    assert_eq!(store.resume_key(&resume).await.unwrap(), KeyFate::Busy);
    assert!(store.key_standing("a").await.unwrap().parking().is_some());
    assert!(began.elapsed() < AT_ONCE);
    assert_eq!(place.number("select count(*) from outbox_audit").await, 0);
    locker.batch_execute("rollback").await.unwrap();
    assert_eq!(store.resume_key(&resume).await.unwrap(), KeyFate::Resumed { event: id[0] });
    row.batch_execute("rollback").await.unwrap();
    let key = take_one(&store, "n").await;
    assert_eq!(ids(&run_of(&store, &key).await.rows), id[1..]);
}

/// A row that was held by itself: born held, or one that was put in line late.
async fn born_held(place: &Place, store: &PostgresStore, key: &str) -> Held {
    let birth = Birth::Held { owner: "h".into(), grace: HOLD };
    let row = NewRow { event: of(key), birth };
    let born = write(store, &mut place.client().await, std::slice::from_ref(&row)).await;
    Held::row(row.event.id(), born[0].token.unwrap())
}

#[tokio::test]
async fn a_row_by_itself_parks_wakes_or_joins_its_key() {
    let place = Place::new();
    let store = place.store().await;
    let hot = born_held(&place, &store, "a").await;
    let id = written(&place, &store, &["a"]).await;
    // The walk lists the key, and finds that its first row is not in line.
    let key = take_one(&store, "n").await;
    let run = run_of(&store, &key).await;
    assert!(run.rows.is_empty() && !run.whole);
    assert!(applied(&settle(&store, "n", ends(&key, Vec::new(), Ending::Free)).await));
    let looked = take(&store, "n").await;
    assert_eq!((looked.keys.len(), looked.put_off), (0, 1));
    assert!(looked.next.is_some_and(|next| next <= Duration::from_millis(100)), "{looked:?}");
    assert!(settle_one(&store, hot, Outcome::Done).await);
    let key = take_one(&store, "n").await;
    assert_eq!(ids(&run_of(&store, &key).await.rows), id);
    assert!(applied(&settle(&store, "n", ends(&key, done(&id), Ending::Exhausted)).await));

    let given_up = born_held(&place, &store, "a").await;
    assert!(settle_one(&store, given_up, Outcome::Released).await);
    let row = store.find(given_up.id).await.unwrap().unwrap();
    assert_eq!((row.due_at, row.locked_by), (IN_LINE, None));
    let key = take_one(&store, "n").await;
    let ended = ends(&key, done(&[given_up.id]), Ending::Exhausted);
    assert!(applied(&settle(&store, "n", ended).await));

    let dies = born_held(&place, &store, "a").await;
    let dead = Settlement { held: dies, outcome: Outcome::dead(1, "no") };
    place
        .run("insert into outbox_key (ordering_key, due_at, since) values ('a', now(), now())")
        .await;
    let locker = beside(&place, "select from outbox_key for update").await;
    let began = Instant::now();
    assert_eq!(store.settle(std::slice::from_ref(&dead)).await.unwrap().busy, [dies.id]);
    assert!(began.elapsed() < AT_ONCE);
    locker.batch_execute("rollback").await.unwrap();
    place.run("delete from outbox_key").await;
    assert_eq!(store.settle(&[dead]).await.unwrap().applied, [dies.id]);
    written(&place, &store, &["a"]).await;
    let taken = take(&store, "n").await;
    assert_eq!((taken.keys.len(), taken.walked.unwrap().listed), (0, 1), "parked");
    assert_eq!(
        place.number("select count(*) from outbox_key where parked_by is not null").await,
        1
    );
}

/// Attack 9, in both orders: no row is ever shelved behind a key that is not listed.
#[tokio::test]
async fn a_shelved_row_is_always_listed() {
    let place = Place::new();
    let store = place.store().await;
    let window = Window { after: 0, last: i64::MAX };
    let id = written(&place, &store, &["a", "a", "b"]).await;
    let one = TakeKeys { limit: 1, ..taking("n") };
    let key = store.take_keys(&one).await.unwrap().keys.remove(0);
    assert_eq!(store.shelve(window, Duration::from_secs(60)).await.unwrap(), 0, "it moves");
    place.run("update outbox_key set since = now() - interval '1 s'").await;
    // The entry goes first, and nobody has seen that yet.
    let deleting = beside(&place, "delete from outbox_key").await;
    assert_eq!(store.shelve(window, Duration::ZERO).await.unwrap(), 0);
    deleting.batch_execute("rollback").await.unwrap();
    assert_eq!(store.shelve(window, Duration::ZERO).await.unwrap(), 2, "b is not listed");
    let walked = take(&store, "n").await.walked.unwrap();
    assert_eq!((walked.rows, walked.listed), (1, 0), "a walk does not meet them");
    assert_eq!(ids(&run_of(&store, &key).await.rows), id[..2], "but they are read");
    // Nothing more was seen, but rows were shelved meanwhile: a look finds out.
    assert!(applied(&settle(&store, "n", ends(&key, done(&id[..1]), Ending::Exhausted)).await));
    let taken = take(&store, "n").await;
    assert_eq!(taken.keys.len(), 1);
    assert!(applied(
        &settle(&store, "n", ends(&taken.keys[0], done(&id[1..2]), Ending::Exhausted)).await
    ));
    let before = entries(&place).await;
    assert!(take(&store, "n").await.keys.is_empty());
    assert_eq!(before - entries(&place).await, 1, "gone by a look");
}

/// Attack 8: what commits late lies behind where a walk has come to.
#[tokio::test]
async fn what_commits_late_is_found_by_a_walk_from_the_front() {
    let place = Place::new();
    let store = place.store().await;
    let late = beside(&place, "select sendoff_emit('t', '1', ordering_key => 'late')").await;
    written(&place, &store, &["a"]).await;
    let walked = take(&store, "n").await.walked.unwrap();
    late.batch_execute("commit").await.unwrap();
    let on =
        TakeKeys { walk: Some(WalkFrom { after: walked.last.unwrap(), rows: 10 }), ..taking("n") };
    assert!(store.take_keys(&on).await.unwrap().keys.is_empty());
    assert_eq!(&*take_one(&store, "n").await.key, "late");
}

/// The look at a key's first row is younger than the lock of its entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlements_under_an_earlier_hold_are_seen() {
    let place = Place::new();
    let store = place.store().await;
    for round in 0..40 {
        let name = format!("k{round}");
        let id = written(&place, &store, &[&name, &name]).await;
        let key = take_one(&store, "n").await;
        lapse(&place).await;
        let other = place.store().await;
        let settles = settle(&store, "n", ends(&key, done(&id[..1]), Ending::HeldOn));
        let takes = take(&other, "m");
        let (settled, taken) = futures_util::future::join(settles, takes).await;
        let mut keys = taken.keys;
        if keys.is_empty() {
            lapse(&place).await;
            keys = take(&other, "m").await.keys;
        }
        let first = run_of(&other, &keys[0]).await.rows[0].id;
        assert_eq!(first, if applied(&settled) { id[1] } else { id[0] });
        let left = if applied(&settled) { &id[1..] } else { &id[..] };
        assert!(applied(&settle(&other, "m", ends(&keys[0], done(left), Ending::Exhausted)).await));
        other.close().await;
    }
    assert_eq!(store.counts().await.unwrap().pending(), 0);
}

/// Holds rule 14 of faults: constants are no times, and entries that are held too long are looked at.
#[tokio::test]
async fn rescue_leaves_rows_in_line_alone() {
    let place = Place::new();
    let store = place.store().await;
    let id = written(&place, &store, &["a", "b"]).await;
    take(&store, "n").await;
    place
        .run(&format!(
            "update outbox_event set created_at = now() + interval '1 day' where event_id = '{}';
             update outbox_key set due_at = now() + interval '1 day' where ordering_key = 'a'",
            id[0]
        ))
        .await;
    assert_eq!(store.rescue(Duration::from_secs(3_600)).await.unwrap(), 1);
    for id in &id {
        let row = store.find(*id).await.unwrap().unwrap();
        assert_eq!(row.due_at, IN_LINE);
        assert!(row.created_at <= sendoff_core::Timestamp::now().saturating_add(HOLD));
    }
    assert_eq!(&*take_one(&store, "m").await.key, "a");
}

#[tokio::test]
async fn lateness_of_rows_in_line_counts_from_when_they_were_created() {
    let place = Place::new();
    let store = place.store().await;
    written(&place, &store, &["a"]).await;
    place.run("update outbox_event set created_at = now() - interval '1 hour'").await;
    let late = store.lateness().await.unwrap();
    for time in [late.oldest, late.overdue] {
        assert!(time.as_secs().abs_diff(3_600) < 60, "{late:?}");
    }
    take(&store, "n").await;
    let late = store.lateness().await.unwrap();
    assert!(late.oldest.as_secs() >= 3_600 && late.overdue.is_zero(), "{late:?}");
    let shown = "select count(*) from outbox_event_json where due_at is null";
    assert_eq!(place.number(shown).await, 1);
}
