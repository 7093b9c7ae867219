//! Cleanup and the defaults of maintenance, without a database.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::partition::Period;
use sendoff_core::{AuditNote, Delivery, EventId, Failure, PauseScope};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{AuditPage, LetterStore, PauseStore, Purged, StoreError, Trail};
use sendoff_engine::{
    Cleaned, CleanupMaintainer, CleanupOptions, Outbox, OutboxOptions, PartitionOptions,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::wait::{eventually, within};
use tokio_util::sync::CancellationToken;

use super::flaky::Flaky;
use super::{EVENT, commit, event, options};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Holds C2.
#[test]
fn the_defaults_are_those_of_the_rules() {
    let cleanup = CleanupOptions::default();
    assert_eq!((cleanup.retention, cleanup.limit), (7 * DAY, 10_000));
    assert_eq!(cleanup.check_every, Duration::from_secs(60 * 60));
    assert!(!cleanup.include_dead && cleanup.validate().is_ok());
    let partitions = PartitionOptions::default();
    assert_eq!((partitions.lookahead, partitions.period), (30 * DAY, Period::Day));
    assert_eq!(partitions.check_every, Duration::from_secs(60 * 60));
    assert!(partitions.retention.is_none() && partitions.validate().is_ok());
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let day = Duration::from_secs(24 * 60 * 60);
    for (options, field) in [
        (CleanupOptions { limit: 0, ..Default::default() }, "limit"),
        (CleanupOptions { batch: 0, ..Default::default() }, "batch"),
        (CleanupOptions { batch: 1_001, ..Default::default() }, "batch"),
        (CleanupOptions { check_every: Duration::ZERO, ..Default::default() }, "check_every"),
        (CleanupOptions { retention: Duration::MAX, ..Default::default() }, "retention"),
        (forgetting(Trail::Seen, Some(Duration::MAX)), "inbox_retention"),
        (forgetting(Trail::Audit, Some(Duration::MAX)), "audit_retention"),
    ] {
        assert!(options.validate().unwrap_err().to_string().starts_with(field), "{field}");
    }
    for (options, field) in [
        (PartitionOptions { lookahead: 367 * day, ..Default::default() }, "lookahead"),
        (PartitionOptions { lookahead: Duration::ZERO, ..Default::default() }, "lookahead"),
        (PartitionOptions { lock_wait: Duration::ZERO, ..Default::default() }, "lock_wait"),
        (PartitionOptions { most_moved: 0, ..Default::default() }, "most_moved"),
    ] {
        assert!(options.validate().unwrap_err().to_string().starts_with(field), "{field}");
    }
    let months =
        PartitionOptions { period: Period::Month, lookahead: 900 * day, ..Default::default() };
    assert!(months.validate().is_ok());
}

/// Holds L6: the look-ahead follows the period, and is bounded by it.
#[test]
fn partitions_by_the_hour_are_made_two_days_ahead_and_fourteen_at_most() {
    let hours = PartitionOptions::by(Period::Hour);
    assert_eq!((hours.period, hours.lookahead), (Period::Hour, 2 * DAY));
    assert_eq!(PartitionOptions::by(Period::Month).lookahead, 30 * DAY);
    for (lookahead, is_taken) in [(2 * DAY, true), (14 * DAY, true), (15 * DAY, false)] {
        let options = PartitionOptions { lookahead, ..hours.clone() };
        assert_eq!(options.validate().is_ok(), is_taken, "{lookahead:?}");
    }
}

/// A store with so many delivered rows, and the outbox that wrote them closed.
async fn delivered(store: &Flaky, rows: usize) {
    let outbox = Outbox::builder(store.clone())
        .options(options())
        .on(EVENT, |_: Delivery| async { Ok(()) })
        .start()
        .await
        .unwrap();
    let writer = Outbox::writer_only(store.table.clone());
    for _ in 0..rows {
        commit(&writer, &event()).await;
    }
    let over = async || store.table.rows().iter().all(|row| row.status.is_terminal());
    eventually("everything to end", over).await;
    outbox.close().await;
}

/// Holds L7: passes end at their limit and follow each other, and what failed half-way is counted.
#[tokio::test(start_paused = true)]
async fn passes_follow_each_other_and_a_failure_keeps_its_counts() {
    let store = Flaky::default();
    delivered(&store, 30).await;
    tokio::time::sleep(DAY).await;
    let options =
        CleanupOptions { retention: Duration::ZERO, limit: 10, batch: 4, ..Default::default() };
    let cleanup = CleanupMaintainer::new(Arc::new(store.clone()), options).unwrap();
    store.down_after_purges(4);
    let error = cleanup.run_once().await.unwrap_err();
    assert_eq!(error.so_far.purged.done, 4 + 4 + 2 + 4, "a pass of ten, and a batch of the next");
    assert_eq!((error.so_far.passes, error.so_far.finished), (2, false));
    store.set_down(false);
    let rest = cleanup.run_once().await.unwrap();
    assert_eq!((rest.purged, rest.passes), (Purged { done: 16, dead: 0 }, 2));
    assert!(rest.finished && store.table.rows().is_empty());
}

/// Holds L7: told to end, it says what it did by then.
#[tokio::test(start_paused = true)]
async fn a_cleanup_that_is_cancelled_says_what_it_did() {
    let store = Flaky::default();
    delivered(&store, 10).await;
    tokio::time::sleep(DAY).await;
    let cancel = CancellationToken::new();
    let options = CleanupOptions { retention: Duration::ZERO, batch: 3, ..Default::default() };
    let cleanup = CleanupMaintainer::new(Arc::new(store.clone()), options).unwrap();
    let cleanup = cleanup.on_progress({
        let cancel = cancel.clone();
        move |cleaned| {
            if cleaned.batches == 2 {
                cancel.cancel();
            }
        }
    });
    let cleaned = cleanup.run_once_until(cancel.cancelled()).await.unwrap();
    assert_eq!((cleaned.purged.done, cleaned.finished), (6, false));
    assert_eq!(store.table.rows().len(), 4);
}

/// Sees so many events in an inbox, as a consumer does.
async fn see(inbox: &sendoff_engine::Inbox<MemoryStore>, events: usize) -> Vec<EventId> {
    let mut tx = inbox.store().transaction().unwrap();
    let ids: Vec<_> = (0..events).map(|_| EventId::generate()).collect();
    for id in &ids {
        assert!(inbox.once(&mut tx, "billing", *id).await.unwrap());
    }
    tx.commit().unwrap();
    ids
}

/// Does so many things that are remembered, as an operator does.
async fn act(store: &MemoryStore, acts: usize) {
    let mails = PauseScope::event_type("mail").unwrap();
    let note = AuditNote::new("ann", "a test").unwrap();
    for _ in 0..acts {
        // What is paused already is not paused again, and nothing is written down.
        let is_paused = store.pause(&mails, &note).await.unwrap();
        assert!(is_paused || store.resume(&mails, &note).await.unwrap());
    }
}

/// Options by which a trail is forgotten after a retention, and every event that may go goes.
fn forgetting(trail: Trail, retention: Option<Duration>) -> CleanupOptions {
    let all = CleanupOptions { retention: Duration::ZERO, batch: 10, ..CleanupOptions::default() };
    match trail {
        Trail::Seen => CleanupOptions { inbox_retention: retention, ..all },
        Trail::Audit => CleanupOptions { audit_retention: retention, ..all },
    }
}

/// How many rows of it are gone; none of the other are.
fn gone(trail: Trail, cleaned: &Cleaned) -> u64 {
    let (gone, others) = match trail {
        Trail::Seen => (cleaned.seen, cleaned.audit),
        Trail::Audit => (cleaned.audit, cleaned.seen),
    };
    assert_eq!(others, 0, "{trail:?}");
    gone
}

/// Holds L7: what an inbox saw and what operators did is kept for retentions of their own, however short that of
/// events is; without one for ever.
#[tokio::test(start_paused = true)]
async fn trails_are_forgotten_after_retentions_of_their_own() {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    let inbox = sendoff_engine::Inbox::new(store.clone());
    let old = see(&inbox, 25).await;
    act(&store, 25).await;
    clock.advance(20 * DAY);
    let recent = see(&inbox, 3).await;
    act(&store, 3).await;
    clock.advance(10 * DAY);
    for trail in [Trail::Seen, Trail::Audit] {
        let cleanup = |retention| {
            let options = forgetting(trail, retention);
            CleanupMaintainer::new(Arc::new(store.clone()), options).unwrap()
        };
        let cleaned = cleanup(None).run_once().await.unwrap();
        assert_eq!((gone(trail, &cleaned), cleaned.finished), (0, true), "without one for ever");
        let cleaned = cleanup(Some(31 * DAY)).run_once().await.unwrap();
        assert_eq!((gone(trail, &cleaned), cleaned.batches), (0, 0), "not before its time");
        // Told to end, it says what it did by then.
        let cancel = CancellationToken::new();
        let stopping = cleanup(Some(30 * DAY - DAY)).on_progress({
            let cancel = cancel.clone();
            move |_| cancel.cancel()
        });
        let cleaned = stopping.run_once_until(cancel.cancelled()).await.unwrap();
        assert_eq!((gone(trail, &cleaned), cleaned.batches, cleaned.finished), (10, 1, false));
        let cleaned = cleanup(Some(30 * DAY - DAY)).run_once().await.unwrap();
        assert_eq!((gone(trail, &cleaned), cleaned.batches, cleaned.finished), (15, 2, true));
    }
    let mut tx = store.transaction().unwrap();
    for (ids, is_new) in [(&old, true), (&recent, false)] {
        for id in ids {
            assert_eq!(inbox.once(&mut tx, "billing", *id).await.unwrap(), is_new);
        }
    }
    act(&store, 1).await;
    let entries = store.audit(&AuditPage { limit: 10, ..AuditPage::default() }).await.unwrap();
    let numbers: Vec<_> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(numbers, [29, 28, 27, 26], "no number is drawn twice");
}

/// Who cleans up without an inbox or an audit, or without rights to it, cleans up the rest; what fails otherwise is told with
/// what was done.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_forgotten_keeps_nobody_from_the_rest() {
    let rights = || StoreError::Rights { missing: "delete".into(), remedy: "grant it".into() };
    for (trail, refused, is_told) in [
        (Trail::Seen, rights(), false),
        (Trail::Audit, rights(), false),
        (Trail::Seen, StoreError::Timeout, true),
        (Trail::Audit, StoreError::Timeout, true),
    ] {
        let store = Flaky::default();
        delivered(&store, 5).await;
        tokio::time::sleep(DAY).await;
        store.refuse_to_forget(refused);
        let options = forgetting(trail, Some(DAY));
        let cleanup = CleanupMaintainer::new(Arc::new(store.clone()), options).unwrap();
        match cleanup.run_once().await {
            Ok(cleaned) => {
                assert!(!is_told && cleaned.finished);
                assert_eq!((cleaned.purged.done, gone(trail, &cleaned)), (5, 0));
            }
            Err(error) => assert!(is_told && error.so_far.purged.done == 5, "{error:?}"),
        }
        assert!(store.table.rows().is_empty());
    }
}

/// Holds L7: the engine's own upkeep leaves the dead to somebody who looks at them.
#[tokio::test(start_paused = true)]
async fn the_engine_never_deletes_dead_rows() {
    let store = MemoryStore::new().keeping_for(DAY);
    let options = OutboxOptions { poll_interval: DAY, ..options() };
    let outbox = Outbox::builder(store.clone())
        .options(options)
        .on(EVENT, |_: Delivery| async { Err(Failure::dead("no use")) })
        .start()
        .await
        .unwrap();
    commit(&outbox, &event()).await;
    tokio::time::sleep(9 * DAY).await;
    assert_eq!(store.rows().len(), 1);
    outbox.close().await;
    let options = CleanupOptions { include_dead: true, ..Default::default() };
    let cleanup = CleanupMaintainer::new(Arc::new(store.clone()), options).unwrap();
    assert_eq!(cleanup.run_once().await.unwrap().purged, Purged { done: 0, dead: 1 });
}

/// A clock that is set back, and a row that somebody has locked when the node looks for the first time.
#[tokio::test(start_paused = true)]
async fn what_a_clock_left_in_the_future_and_was_locked_is_found_within_a_minute() {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    let inbox = Inbox::new();
    clock.advance(DAY);
    let ahead = Outbox::writer_only(store.clone());
    let id = commit(&ahead, &event()).await;
    clock.step_back(DAY);
    let lock = store.lock_row(id).unwrap();
    let node = Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone());
    let node = node.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(lock);
    within(Duration::from_secs(60), "it", async || inbox.ids() == [id]).await;
    node.close().await;
}
