//! Deleting rows that are over on SQLite.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{AuditNote, Event, EventId, PauseScope, limits};
use sendoff_engine::store::{
    AuditPage, Cutoff, InspectStore, LetterStore, NewRow, Outcome, PauseStore, Purge, Purged,
    RetainStore, Trail,
};
use sendoff_engine::{CleanupMaintainer, CleanupOptions};
use sendoff_sqlite::{Retention, SqliteOptions, SqliteStore};

use crate::outbox::{Outbox, due, held};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn delivered(outbox: &Outbox) -> EventId {
    deliver(outbox, &due()).await
}

async fn deliver(outbox: &Outbox, row: &NewRow) -> EventId {
    let id = row.event.id();
    outbox.write(std::slice::from_ref(row));
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), Outcome::Done).await);
    id
}

fn of_type(event_type: &str) -> NewRow {
    NewRow { event: Event::json(event_type, &1).unwrap(), ..due() }
}

async fn purge(outbox: &Outbox, older_than: Duration, limit: usize) -> u64 {
    let cutoff = Cutoff::Age(older_than);
    let purged = outbox.store.purge(&Purge { cutoff, limit, dead: false }).await.unwrap();
    assert_eq!(purged.dead, 0);
    purged.done
}

#[tokio::test]
async fn only_what_was_done_long_enough_ago_is_purged_oldest_first() {
    let outbox = Outbox::new().await;
    let first = delivered(&outbox).await;
    let second = delivered(&outbox).await;
    outbox.clock.advance(DAY);
    assert_eq!(purge(&outbox, DAY, 10).await, 0, "a day ago is not longer than that");
    let young = delivered(&outbox).await;
    outbox.clock.advance(Duration::from_micros(1));

    assert_eq!(purge(&outbox, DAY, 0).await, 0);
    assert_eq!(purge(&outbox, DAY, 1).await, 1);
    assert!(outbox.store.find(first).await.unwrap().is_none());
    assert!(outbox.store.find(second).await.unwrap().is_some());
    assert_eq!(purge(&outbox, DAY, 10).await, 1);
    assert_eq!(purge(&outbox, DAY, 10).await, 0);
    assert!(outbox.store.find(young).await.unwrap().is_some());
}

#[tokio::test]
async fn a_type_of_which_nothing_ended_for_a_month_is_forgotten() {
    let outbox = Outbox::new().await;
    let counted = async || {
        let topics = outbox.store.topics().await.unwrap();
        topics.into_iter().map(|topic| (topic.event_type, topic.counts.done)).collect::<Vec<_>>()
    };
    for event_type in ["old", "back"] {
        deliver(&outbox, &of_type(event_type)).await;
    }
    outbox.clock.advance(limits::TALLY);
    assert_eq!(outbox.store.fold().await.unwrap(), 0);
    assert_eq!(counted().await.len(), 2, "a month ago is not longer than that");
    deliver(&outbox, &of_type("back")).await;
    outbox.clock.advance(Duration::from_micros(1));
    assert_eq!(outbox.store.fold().await.unwrap(), 0);
    assert_eq!(counted().await, [("back".to_owned(), 2)]);
}

/// What a clock wrote that was ahead is remembered until its time has come, and holds back nothing.
#[tokio::test]
async fn an_entry_of_the_audit_from_the_future_keeps_no_other() {
    let outbox = Outbox::new().await;
    let store = &outbox.store;
    let (mails, note) = (PauseScope::event_type("mail").unwrap(), AuditNote::new("ann", "why"));
    let note = note.unwrap();
    outbox.clock.advance(DAY);
    assert!(store.pause(&mails, &note).await.unwrap());
    outbox.clock.step_back(DAY);
    for _ in 0..2 {
        assert!(store.resume(&mails, &note).await.unwrap());
        assert!(store.pause(&mails, &note).await.unwrap());
    }
    outbox.clock.advance(Duration::from_micros(1));
    let mut gone = Vec::new();
    for _ in 0..3 {
        let now = Cutoff::Age(Duration::ZERO);
        gone.push(store.forget(Trail::Audit, now, 2).await.unwrap());
    }
    assert_eq!(gone, [2, 2, 0]);
    let left = store.audit(&AuditPage { limit: 10, ..AuditPage::default() }).await.unwrap();
    assert_eq!(left.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1]);
}

/// What a version counted that did not know when is counted on, and forgotten a month later.
#[tokio::test]
async fn what_an_older_version_counted_is_remembered_from_the_upgrade_on() {
    let outbox = Outbox::new().await;
    deliver(&outbox, &of_type("old")).await;
    outbox.execute("drop index outbox_event_key");
    outbox.execute("drop table inbox_event");
    outbox.execute("drop table outbox_key");
    outbox.execute("alter table outbox_tally drop column ended_at");
    outbox.execute("update outbox_schema set version = 4");
    let store = SqliteStore::open(outbox.store.path()).await.unwrap();
    assert_eq!((store.migrated().from, store.migrated().to), (4, 7));
    store.fold().await.unwrap();
    assert_eq!(store.topics().await.unwrap()[0].counts.done, 1);
}

#[tokio::test]
async fn an_old_row_that_was_done_lately_stays() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    outbox.clock.advance(DAY * 3);
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), Outcome::Done).await);
    outbox.clock.advance(DAY);
    assert_eq!(purge(&outbox, DAY * 2, 10).await, 0);
    assert!(outbox.store.find(id).await.unwrap().is_some());
}

#[tokio::test]
async fn pending_and_dead_rows_are_walked_past_and_never_purged() {
    let outbox = Outbox::new().await;
    // More than one step of the walk, in rows that must stay.
    outbox.write(&(0..2_500).map(|_| due()).collect::<Vec<_>>());
    outbox.execute("update outbox_event set status = 3 where seq % 2 = 0");
    outbox.execute("update outbox_event set due_at = due_at + 864000000000 where status = 0");
    let done = delivered(&outbox).await;
    outbox.clock.advance(DAY);
    assert_eq!(purge(&outbox, Duration::ZERO, 10).await, 1);
    assert!(outbox.store.find(done).await.unwrap().is_none());
    let counts = outbox.store.counts().await.unwrap();
    assert_eq!((counts.new, counts.done, counts.dead), (1_250, 0, 1_250));
}

#[tokio::test]
async fn the_store_says_how_long_it_keeps() {
    for (retention, keeps) in [(Retention::DeleteWhenDone, None), (Retention::Keep(DAY), Some(DAY))]
    {
        let outbox = Outbox::with(SqliteOptions { retention, ..Default::default() }).await;
        assert_eq!(outbox.store.keeps(), keeps);
    }
}

/// Holds L7: rows that stay are passed once, not once for every batch, and what was passed while it
/// was pending is found when its time has come.
#[tokio::test]
async fn a_purge_goes_on_where_the_last_one_ended_and_begins_anew_at_the_end() {
    let outbox = Outbox::new().await;
    outbox.write(&(0..50).map(|_| due()).collect::<Vec<_>>());
    outbox.execute("update outbox_event set status = 1, done_at = 1 where seq > 10");
    outbox.clock.advance(DAY);
    assert_eq!(purge(&outbox, Duration::ZERO, 30).await, 30);
    outbox.execute("update outbox_event set status = 1, done_at = 1 where seq <= 5");
    assert_eq!(purge(&outbox, Duration::ZERO, 12).await, 12, "ten ahead, two from the beginning");
    assert_eq!(purge(&outbox, Duration::ZERO, 12).await, 3);
    assert_eq!(purge(&outbox, Duration::ZERO, 12).await, 0);
    assert_eq!(outbox.store.counts().await.unwrap().new, 5);
}

/// Holds L7.
#[tokio::test]
async fn dead_rows_go_by_the_time_they_died_and_along_their_index() {
    let outbox = Outbox::new().await;
    outbox.write(&(0..3).map(|_| due()).collect::<Vec<_>>());
    for claimed in outbox.claim("a").await {
        let dead = Outcome::dead(1, "no");
        assert!(outbox.settle(held(&claimed), dead).await);
        outbox.clock.advance(DAY);
    }
    let purge = Purge { cutoff: Cutoff::Age(DAY), limit: 10, dead: true };
    assert_eq!(outbox.store.purgeable(&purge).await.unwrap(), Purged { done: 0, dead: 2 });
    assert_eq!(outbox.store.purge(&purge).await.unwrap(), Purged { done: 0, dead: 2 });
    assert_eq!(outbox.store.counts().await.unwrap().dead, 1);
    let statement = include_str!("../../sql/outbox/purge_dead.sql");
    let plan: String = outbox
        .store
        .connect()
        .unwrap()
        .query_row(&format!("explain query plan {statement}"), (1, 1), |row| row.get(3))
        .unwrap();
    assert!(plan.contains("outbox_event_dead"), "{plan}");
}

/// Holds L7: two processes on one file delete everything between them, and each counts its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_cleanups_of_one_file_leave_nothing() {
    let outbox = Outbox::new().await;
    outbox.write(&(0..3_000).map(|_| due()).collect::<Vec<_>>());
    outbox.execute("update outbox_event set status = 1, done_at = 1");
    outbox.clock.advance(DAY * 2);
    let cleanup = |store| {
        let options = CleanupOptions { batch: 50, retention: DAY, ..CleanupOptions::default() };
        CleanupMaintainer::new(Arc::new(store), options).unwrap()
    };
    let (one, other) = (cleanup(outbox.store.clone()), cleanup(outbox.again().await));
    let (one, other) = tokio::join!(one.run_once(), other.run_once());
    assert_eq!(one.unwrap().purged.done + other.unwrap().purged.done, 3_000);
    assert_eq!(outbox.store.counts().await.unwrap().done, 0);
}
